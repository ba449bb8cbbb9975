package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The file systems agree on everything but faults.
func TestDirs(t *testing.T) {
	for name, d := range map[string]Dir{"os": must[Dir](t)(OS(t.TempDir() + "/sub")), "mem": NewMem()} {
		t.Run(name, func(t *testing.T) {
			if _, err := d.Open("a"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open: %v", err)
			}
			f := must[File](t)(d.Create("a"))
			if _, err := d.Create("a"); !errors.Is(err, fs.ErrExist) {
				t.Errorf("create: %v", err)
			}
			parts := [][]byte{nil, []byte("he"), nil, []byte("l"), []byte("lo"), nil}
			check(t, f.WritePartsAt(parts, 1000))
			check(t, f.Sync())
			check(t, d.Rename("a", "b"))
			check(t, d.SyncDir())
			p := make([]byte, 10)
			if n, err := f.ReadAt(p, 999); n != 6 || !errors.Is(err, io.EOF) || string(p[:n]) != "\x00hello" {
				t.Errorf("read %q, %v", p[:n], err)
			}
			check(t, f.Truncate(3))
			if n := must[int64](t)(f.Size()); n != 3 {
				t.Errorf("size %d", n)
			}
			lock := must[io.Closer](t)(d.Lock("LOCK"))
			if _, err := d.Lock("LOCK"); err == nil {
				t.Error("locked twice")
			}
			check(t, lock.Close())
			check(t, must[io.Closer](t)(d.Lock("LOCK")).Close())
			if free, total, err := d.Space(); err != nil || free == 0 || free > total {
				t.Errorf("%d of %d free, %v", free, total, err)
			}
			check(t, d.Remove("b"))
			for _, left := range must[[]string](t)(d.List()) {
				if left != "LOCK" {
					t.Errorf("%s is left", left)
				}
			}
			check(t, f.Close())
		})
	}
}

// Parts are written like one piece, however many they are and however large, and are not changed.
func TestWriteParts(t *testing.T) {
	for name, d := range map[string]Dir{"os": must[Dir](t)(OS(t.TempDir())), "mem": NewMem()} {
		t.Run(name, func(t *testing.T) {
			f := must[File](t)(d.Create("a"))
			const count, at = 5000, 77
			var parts [][]byte
			for i := range count {
				parts = append(parts, bytes.Repeat([]byte{byte(i)}, i%7*i%300))
			}
			parts[count/2] = bytes.Repeat([]byte("large"), 1<<20)
			want := bytes.Join(parts, nil)
			check(t, f.WritePartsAt(slices.Clone(parts), at))
			got := make([]byte, len(want)+1)
			if n, err := f.ReadAt(got, at); n != len(want) || !errors.Is(err, io.EOF) || !bytes.Equal(got[:n], want) {
				t.Errorf("%d bytes, %v; written were %d", n, err, len(want))
			}
			if !bytes.Equal(bytes.Join(parts, nil), want) {
				t.Error("the parts were changed")
			}
			check(t, f.WritePartsAt(nil, at))
			check(t, f.Close())
			if err := f.WritePartsAt([][]byte{[]byte("a"), []byte("b")}, 0); name == "os" && err == nil {
				t.Error("written to a closed file")
			}
		})
	}
}

func TestMemLosesWhatIsNotSynced(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	build := func() *Mem {
		m := NewMem()
		f := must[File](t)(m.Create("f"))
		check(t, m.SyncDir())
		must[int](t)(f.WriteAt(bytes.Repeat([]byte("a"), 2000), 0))
		check(t, f.Sync())
		must[int](t)(f.WriteAt(bytes.Repeat([]byte("b"), 3000), 1000))
		must[File](t)(m.Create("g"))
		return m
	}
	read := func(m *Mem) string {
		f := must[File](t)(m.Open("f"))
		p := make([]byte, must[int64](t)(f.Size()))
		must[int](t)(f.ReadAt(p, 0))
		return string(p)
	}
	old := build()
	if got := read(old.Crash(LoseAll, random)); got != string(bytes.Repeat([]byte("a"), 2000)) {
		t.Error("an unsynced write survived")
	}
	if _, err := old.List(); !errors.Is(err, ErrPowerOff) {
		t.Errorf("the old directory lives on: %v", err)
	}
	if m := build().Crash(LoseNone, random); len(read(m)) != 4000 || len(must[[]string](t)(m.List())) != 2 {
		t.Error("a write was lost")
	}
	kinds := map[string]bool{}
	for range 50 {
		kinds[read(build().Crash(LoseSome, random))] = true
		kinds[read(build().Crash(LoseSuffix, random))] = true
	}
	if len(kinds) < 20 {
		t.Errorf("only %d results", len(kinds))
	}
}

func TestMemFaults(t *testing.T) {
	m, broken := NewMem(), errors.New("broken")
	f := must[File](t)(m.Create("f"))
	m.FailAt(OpWrite, 2, broken)
	must[int](t)(f.WriteAt([]byte("1234"), 0))
	if _, err := f.WriteAt([]byte("abcd"), 0); !errors.Is(err, broken) {
		t.Errorf("second write: %v", err)
	}
	p := make([]byte, 4)
	must[int](t)(f.ReadAt(p, 0))
	if string(p) != "ab34" {
		t.Errorf("torn write left %q", p)
	}
	m.SetCapacity(6)
	if _, err := f.WriteAt([]byte("1234567"), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: %v", err)
	}
	hung, release := m.HangAt(OpSync, 1)
	done := make(chan error)
	go func() { done <- f.Sync() }()
	<-hung
	release()
	check(t, <-done)
	m.PowerOffAt(OpAny, 2)
	check(t, f.Sync())
	if err := f.Sync(); !errors.Is(err, ErrPowerOff) {
		t.Errorf("power: %v", err)
	}
}

package archive

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file has what was written, in whatever pieces, and steps begin where they should.
func TestSteps(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, sizes := range [][]int{
		{0}, {1}, {stepBytes}, {stepBytes - 1, 1, 1}, {stepBytes + 1, stepBytes}, {512, 5 * stepBytes, 512}, {3 * stepBytes, 3 * stepBytes}, nil,
	} {
		if sizes == nil {
			for range 200 {
				sizes = append(sizes, r.IntN(100_000))
			}
		}
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		s, want := &steps{file: f}, []byte(nil)
		for _, size := range sizes {
			piece := make([]byte, size)
			for i := range piece {
				piece[i] = byte(r.Uint32())
			}
			want = append(want, piece...)
			if n, err := s.Write(piece); n != size || err != nil {
				t.Fatalf("%d of %d bytes, %v", n, size, err)
			}
			if s.end != int64(len(want)) || s.step != s.end/stepBytes*stepBytes {
				t.Fatalf("the file ends at %d, want %d, and its last step begins at %d", s.end, len(want), s.step)
			}
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes are not what was written: %v", len(got), err)
		}
	}
}

// Errors of the disk end the write, and say how much was written.
func TestStepsFail(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close() //nolint:errcheck // nothing was written
	if n, err := (&steps{file: full}).Write(make([]byte, 2*stepBytes)); n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %d, %v", n, err)
	}
	// A device takes everything and has no ranges: they are left to Sync.
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &steps{file: null}
	if n, err := s.Write(make([]byte, 3*stepBytes)); n != 3*stepBytes || err != nil {
		t.Errorf("a device: %d, %v", n, err)
	}
	if err := null.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.next(); err == nil {
		t.Error("a step of a closed file begins")
	}
}

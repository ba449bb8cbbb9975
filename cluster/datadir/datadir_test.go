package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
)

func openTestDir(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path, "c", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A directory has one process, and belongs to one node of one cluster.
func TestDataDirRefuses(t *testing.T) {
	path := t.TempDir()
	d := openTestDir(t, path)
	refuse := func(cluster string, node id.NodeID, parts ...string) {
		t.Helper()
		other, err := Open(path, cluster, node)
		if err == nil {
			_ = other.Close()
			t.Fatalf("opened as node %q of cluster %q", node, cluster)
		}
		for _, part := range append(parts, path) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q lacks %q", err, part)
			}
		}
	}
	refuse("c", "n", "in use by process "+strconv.Itoa(os.Getpid()), "directory of its own")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	refuse("d", "n", `belongs to cluster "c"`, `"d"`)
	refuse("c", "m", `belongs to node "n"`, `"m"`)
	again, err := Open(path, "c", "n")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// A queue whose log is a bolt file of its own is one of version 0.9: this build does not read
// it, and nothing of the directory is changed.
func TestDataDirRefusesQueuesInBolt(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, "c", "n")
	if err != nil {
		t.Fatal(err)
	}
	queue := d.Queue(7)
	if err := errors.Join(d.Close(), os.Mkdir(queue, dirMode), os.WriteFile(filepath.Join(queue, boltLog), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first refusal has released the directory
		d, err = Open(path, "c", "n")
		if err == nil {
			_ = d.Close()
			t.Fatal("it was opened")
		}
		for _, part := range []string{path, "1 queues", filepath.Join(queue, boltLog), "version 0.9", "storage.queue_log: shared", "replace-member QUEUE n n"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q lacks %q", err, part)
			}
		}
	}
	if err := os.RemoveAll(queue); err != nil {
		t.Fatal(err)
	}
	openTestDir(t, path)
}

// Epochs rise at every start, also past a torn or lost copy; with both copies lost in
// part the node refuses to start.
func TestEpoch(t *testing.T) {
	for _, c := range []struct {
		name  string
		harm  func(t *testing.T, dir string, newer, older string)
		fails bool
		names int // which copy the log names: 1 the newer, 2 the older
	}{
		{"whole", func(*testing.T, string, string, string) {}, false, 0},
		{"newer empty", func(t *testing.T, _, newer, _ string) { harm(t, newer, nil) }, false, 1},
		{"newer torn", func(t *testing.T, _, newer, _ string) { harm(t, newer, []byte("quorate 1\nepo")) }, false, 1},
		{"newer missing", func(t *testing.T, _, newer, _ string) { remove(t, newer) }, false, 1},
		{"older torn", func(t *testing.T, _, _, older string) { harm(t, older, []byte("x")) }, false, 2},
		{"left over", func(t *testing.T, dir, _, _ string) { harm(t, filepath.Join(dir, "epoch.0.new"), []byte("x")) }, false, 0},
		{"both torn", func(t *testing.T, _, newer, older string) { harm(t, newer, nil); harm(t, older, nil) }, true, 0},
	} {
		for _, lives := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s after %d", c.name, lives), func(t *testing.T) {
				d := openTestDir(t, t.TempDir())
				last := id.Epoch(0)
				var logged bytes.Buffer
				log := slog.New(slog.NewTextHandler(&logged, nil))
				for range lives {
					e, err := d.NextEpoch(log)
					if err != nil || e <= last {
						t.Fatalf("epoch %d after %d: %v", e, last, err)
					}
					last = e
				}
				newer, older := sealed.Path(d.path, epochFile, int(last%2)), sealed.Path(d.path, epochFile, int(last+1)%2)
				if c.harm(t, d.path, newer, older); logged.Len() > 0 {
					t.Errorf("without damage: %s", &logged)
				}
				e, err := d.NextEpoch(log)
				if n, o := strings.Contains(logged.String(), newer), strings.Contains(logged.String(), older); n != (c.names == 1) || o != (c.names == 2) {
					t.Errorf("the log says %q", &logged)
				}
				if logged.Reset(); !c.fails {
					if _, again := d.NextEpoch(log); again != nil || logged.Len() > 0 {
						t.Errorf("after the repair: %v, %s", again, &logged)
					}
				}
				if (err != nil) != c.fails {
					t.Fatalf("error %v", err)
				}
				if !c.fails && e <= last {
					t.Errorf("epoch %d after %d", e, last)
				}
				if c.fails && !strings.Contains(err.Error(), d.path) {
					t.Errorf("error %q does not name %q", err, d.path)
				}
			})
		}
	}
}

func harm(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// A promise survives a start, and one torn copy.
func TestPromiseOnDisk(t *testing.T) {
	d := openTestDir(t, t.TempDir())
	p, err := d.Promise()
	if err != nil || p.Founder != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	want := Promise{Founder: "a", Round: 3, Members: []id.NodeID{"a", "b", "c"}, Proposals: 2}
	if err := d.WritePromise(want); err != nil {
		t.Fatal(err)
	}
	harm(t, sealed.Path(d.path, promiseFile, 0), nil)
	got, err := d.Promise()
	if err != nil || got.Founder != want.Founder || got.Round != 3 || got.Proposals != 2 || !slices.Equal(got.Members, want.Members) {
		t.Fatalf("%+v, %v", got, err)
	}
	harm(t, sealed.Path(d.path, promiseFile, 1), []byte("quorate 1\nfounder b\ncrc32c 00000000\n"))
	if _, err := d.Promise(); err == nil {
		t.Error("two torn copies were read")
	}
}

// FuzzMark: what is read as a mark is one, and is written so that it is read again.
func FuzzMark(f *testing.F) {
	f.Add("00000000000000000007", "1", "2", "3", "4", "5", "6")
	f.Add("7", "18446744073709551616", "-1", "", "x", "0x1", "")
	f.Fuzz(func(t *testing.T, number, log, segment, offset, term, last, voters string) {
		m, err := parseMark(sealed.Record{}.
			With(fieldNumber, number).
			With(fieldLog, log).
			With(fieldSeg, segment).
			With(fieldOffset, offset).
			With(fieldTerm, term).
			With(fieldLast, last).
			With(fieldVoters, voters))
		if err != nil {
			return
		}
		if again, err := parseMark(m.record()); err != nil || again != m {
			t.Errorf("%+v is read again as %+v, %v", m, again, err)
		}
	})
}

// A data directory whose parents are missing is made with them; one that is there is taken
// as it is, and a file in its way is reported.
func TestMakeDurably(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "data")
	for range 2 {
		if err := makeDurably(path); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := os.Stat(path); err != nil || !s.IsDir() || s.Mode().Perm() != dirMode {
		t.Errorf("%v, %v", s, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeDurably(filepath.Join(file, "data")); err == nil {
		t.Error("a directory was made below a file")
	}
}

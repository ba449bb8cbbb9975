package archive

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/quorumq"
)

// parents returns a place of each kind for several backups.
func parents(t *testing.T) map[string]Location {
	t.Helper()
	all := places(t)
	s3 := all["s3"]
	return map[string]Location{"directory": {Name: t.TempDir()}, "s3": {Name: "s3://backups/many", S3: s3.S3}}
}

// below returns the location of a backup in a place of several.
func below(parent Location, name string) Location {
	return Location{Name: parent.Name + "/" + name, S3: parent.S3}
}

// one writes a small backup that began at a time, and says what it lacks.
func one(t *testing.T, l Location, k *Keys, vhost string, began time.Time, lacks ...string) {
	t.Helper()
	s, err := l.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(s, k, Manifest{Cluster: "test", VHost: vhost}, began)
	if err != nil {
		t.Fatal(err)
	}
	c := w.Copy()
	b := backup.NewWriter(func(b []byte) ([]byte, error) { return b, c.Block(t.Context(), b) })
	c.Begin()
	err = errors.Join(w.Definitions(t.Context(), []byte("{}")), b.Head(&backup.Head{VHost: "/", Queue: "q", UID: 1024, Messages: 1}),
		b.Message(&backup.Message{TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority, Stored: []byte("body")}), b.End(), c.End())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range lacks {
		w.Missing(q)
	}
	if _, err := w.Close(t.Context(), began); err != nil {
		t.Fatal(err)
	}
}

// half begins a backup that is never completed.
func half(t *testing.T, l Location) {
	t.Helper()
	s, err := l.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(s, nil, Manifest{}, time.Now())
	if err := errors.Join(err, w.Definitions(t.Context(), []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if _, tar := s.(*tarFile); !tar { // Abandon removes it: this one is of a program that was killed
		if err := w.Abandon(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTarWithoutManifest: a tar file under its final name that lacks a manifest is incomplete, as older releases left
// it, and goes once it is stale. One with other content is no backup.
func TestTarWithoutManifest(t *testing.T) {
	parent, written := Location{Name: t.TempDir()}, time.Now().Truncate(time.Second)
	for name, object := range map[string]string{"left.tar": definitionsName, "sealed.tar": definitionsName + encryptedSuffix, "other.tar": "notes.txt"} {
		s, err := below(parent, name).Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(s.Put(t.Context(), object, []byte("{}")), s.Close(), os.Chtimes(filepath.Join(parent.Name, name), written, written))
		if err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"left.tar incomplete", "sealed.tar incomplete"}
	same(t, "before", there(t, parent, nil), all...)
	got, err := prune(t, parent, nil, 1, false, written.Add(StaleAfter))
	if err != nil || len(got) > 0 {
		t.Errorf("%v is removed though it is new, %v", got, err)
	}
	got, err = prune(t, parent, nil, 1, false, written.Add(StaleAfter+1))
	if err != nil {
		t.Error(err)
	}
	same(t, "removed", got, "left.tar", "sealed.tar")
	if _, err := os.Stat(filepath.Join(parent.Name, "other.tar")); err != nil {
		t.Error(err)
	}
}

// TestOtherFiles: what other programs have left beside backups is no backup, whatever its name, and stays. What is of a
// backup and damaged is one.
func TestOtherFiles(t *testing.T) {
	parent := Location{Name: t.TempDir()}
	long := time.Now().Add(-2 * StaleAfter)
	file := func(name string, content []byte) {
		t.Helper()
		path := filepath.Join(parent.Name, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600), os.Chtimes(path, long, long))
		if err != nil {
			t.Fatal(err)
		}
	}
	tarred := func(objects ...string) []byte {
		t.Helper()
		l := Location{Name: filepath.Join(t.TempDir(), "x.tar")}
		s, err := l.Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if err := s.Put(t.Context(), o, []byte(strings.Repeat("{}", 2000))); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(l.Name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	image, part := tarred("blobs/sha256/1", manifestName), tarred(definitionsName, manifestSum)
	file("image.tar", image) // of containers: with a manifest.json
	file("cut.tar", image[:len(image)/2])
	file("compressed.tar", []byte("\x1f\x8b"+strings.Repeat("text", 1000)))
	file("other.1.tar.tmp", image)
	file("text.tar.tmp", []byte(strings.Repeat("text", 1000)))
	file("page/manifest.json", []byte("{}"))
	file("page/icons/1.png", nil)
	file("left.tar/notes.txt", nil)
	file("left.tar.tmp/notes.txt", nil)
	both, _ := key(t)
	for what, k := range map[string]*Keys{"without a key": nil, "with a key": both} {
		same(t, what, there(t, parent, k))
		if got, err := prune(t, parent, k, 1, false, time.Now()); err != nil || len(got) > 0 {
			t.Errorf("%s: %v is removed, %v", what, got, err)
		}
	}
	file("damaged.tar", part[:len(part)/2])
	file("early.1.tar.tmp", part[:len(part)/2])
	file("empty.1.tar.tmp", nil)
	file("half.tmp/definitions.json", []byte("{}"))
	same(t, "with parts of backups", there(t, parent, nil), "damaged.tar unreadable", "early.1.tar.tmp incomplete", "empty.1.tar.tmp incomplete", "half.tmp incomplete")
	one(t, below(parent, "whole.tmp"), nil, "", long)
	got, err := prune(t, parent, nil, 1, false, time.Now())
	if err != nil {
		t.Error(err)
	}
	same(t, "removed", got, "early.1.tar.tmp", "empty.1.tar.tmp", "half.tmp")
	same(t, "left", there(t, parent, nil), "whole.tmp complete", "damaged.tar unreadable")
}

// TestNamesInS3: the endings of names mean something for files alone.
func TestNamesInS3(t *testing.T) {
	parent := parents(t)["s3"]
	names := []string{"c.tar", "b.tar.tmp", "a.tmp"} // newest first
	for i, name := range names {
		one(t, below(parent, name), nil, "", time.Now().Add(-time.Duration(i)*time.Hour))
	}
	same(t, "before", there(t, parent, nil), "c.tar complete", "b.tar.tmp complete", "a.tmp complete")
	got, err := prune(t, parent, nil, 1, false, time.Now())
	if err != nil {
		t.Error(err)
	}
	same(t, "removed", got, "a.tmp", "b.tar.tmp")
	same(t, "after", there(t, parent, nil), "c.tar complete")
}

// there returns the names of the backups in a place, and their states.
func there(t *testing.T, parent Location, k *Keys) []string {
	t.Helper()
	all, err := parent.Backups(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range all {
		state := "complete"
		switch {
		case f.Incomplete:
			state = "incomplete"
		case f.Err != nil:
			state = "unreadable"
		}
		out = append(out, f.Location.Name[strings.LastIndexByte(f.Location.Name, '/')+1:]+" "+state)
	}
	return out
}

// prune prunes, and returns what was removed.
func prune(t *testing.T, parent Location, k *Keys, keep int, dry bool, now time.Time) ([]string, error) {
	t.Helper()
	var out []string
	p := Prune{Place: parent, Keys: k, Keep: keep, DryRun: dry, Now: now, Verifying: func(Found) {}, Removed: func(f Found) {
		out = append(out, f.Location.Name[strings.LastIndexByte(f.Location.Name, '/')+1:])
	}}
	err := p.Execute(t.Context())
	return out, err
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestPrune keeps the newest of each kind, what is incomplete and new, and what is no backup.
func TestPrune(t *testing.T) {
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	both, _ := key(t)
	for kind, parent := range parents(t) {
		for _, k := range []*Keys{nil, both} {
			t.Run(kind, func(t *testing.T) {
				if k != nil {
					parent.Name += "-encrypted"
					if kind == "directory" {
						if err := os.Mkdir(parent.Name, 0o700); err != nil {
							t.Fatal(err)
						}
					}
				}
				for day, name := range []string{"d", "a", "c", "b"} {
					one(t, below(parent, name), k, "", began.AddDate(0, 0, day))
				}
				one(t, below(parent, "orders"), k, "orders", began)
				half(t, below(parent, "half"))
				names := []string{"b complete", "c complete", "a complete", "d complete", "orders complete", "half incomplete"}
				if kind == "directory" {
					one(t, below(parent, "file.tar"), k, "", began.AddDate(0, 0, -1))
					half(t, below(parent, "half.tar"))
					left, err := filepath.Glob(filepath.Join(parent.Name, "*"+tarSuffix+temporarySuffix))
					if err != nil || len(left) != 1 {
						t.Fatal(left, err)
					}
					names = slices.Insert(names, 5, "file.tar complete")
					names = append(names, filepath.Base(left[0])+" incomplete")
					mine := filepath.Join(parent.Name, "d", "notes.txt")
					err = errors.Join(os.Mkdir(filepath.Join(parent.Name, "other"), 0o700), os.WriteFile(mine, []byte("mine"), 0o600))
					if err != nil {
						t.Fatal(err)
					}
				}
				same(t, "before", there(t, parent, k), names...)
				if k != nil {
					for _, s := range there(t, parent, nil) {
						if strings.HasSuffix(s, " complete") {
							t.Errorf("without the key: %s", s)
						}
					}
					other, public := key(t)
					for what, k := range map[string]*Keys{"without a key": nil, "with another key": other, "with a public key": public} {
						got, err := prune(t, parent, k, 1, false, time.Now())
						if err == nil || !strings.Contains(err.Error(), below(parent, "a").Name) || !strings.Contains(err.Error(), "give their key") || len(got) > 0 {
							t.Errorf("%s: %v is removed, %v", what, got, err)
						}
					}
				}
				var old []string
				if kind == "directory" {
					old = append(old, "file.tar")
				}
				old = append(old, "d", "a")
				got, err := prune(t, parent, k, 2, true, time.Now())
				same(t, "to be removed", got, old...)
				same(t, "after a dry run", there(t, parent, k), names...)
				if err != nil {
					t.Error(err)
				}
				if got, err = prune(t, parent, k, 2, false, time.Now()); err != nil {
					t.Error(err)
				}
				same(t, "removed", got, old...)
				left := names[:2:2]
				left = append(left, names[4])
				left = append(left, names[len(names)-1-len(old)+2:]...)
				same(t, "after it", there(t, parent, k), left...)
				got, err = prune(t, parent, k, 2, false, time.Now().Add(StaleAfter+time.Minute))
				if err != nil || len(got) != len(left)-3 {
					t.Errorf("a day later %v is removed, %v", got, err)
				}
				if kind != "directory" {
					return
				}
				if b, err := os.ReadFile(filepath.Join(parent.Name, "d", "notes.txt")); string(b) != "mine" {
					t.Errorf("a file that is no backup's: %q, %v", b, err)
				}
				if _, err := os.Stat(filepath.Join(parent.Name, "other")); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(filepath.Join(parent.Name, "a")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the directory of a removed backup: %v", err)
				}
			})
		}
	}
	if _, err := prune(t, Location{Name: t.TempDir()}, nil, 0, false, began); err == nil {
		t.Error("0 backups are kept")
	}
	if _, err := prune(t, Location{Name: "x.tar"}, nil, 1, false, began); err == nil {
		t.Error("one file is pruned")
	}
}

// TestPruneVerifies: the newest backup that can be verified stays, whatever the number is.
func TestPruneVerifies(t *testing.T) {
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	parent := Location{Name: t.TempDir()}
	for day, name := range []string{"1", "2", "3", "4"} {
		one(t, below(parent, name), nil, "", began.AddDate(0, 0, day))
	}
	damage := func(name string) {
		t.Helper()
		path := filepath.Join(parent.Name, name, "queues", "000001", "000001.blocks")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage("4")
	damage("3")
	got, err := prune(t, parent, nil, 1, false, time.Now())
	same(t, "removed", got, "1")
	if err == nil || !strings.Contains(err.Error(), filepath.Join(parent.Name, "4")) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged ones: %v", err)
	}
	damage("2")
	got, err = prune(t, parent, nil, 1, false, time.Now())
	same(t, "removed though none can be verified", got)
	if err == nil {
		t.Error("it reports nothing")
	}
	same(t, "left", there(t, parent, nil), "4 complete", "3 complete", "2 complete")
}

// TestPruneKeepsWhole: backups that lack queues count like others, but the newest one that lacks none stays beside them,
// until there is a newer one of that sort.
func TestPruneKeepsWhole(t *testing.T) {
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	parent := Location{Name: t.TempDir()}
	const lost = `queue "lost" in vhost "/": it has no leader`
	one(t, below(parent, "1"), nil, "", began)
	one(t, below(parent, "2"), nil, "", began.AddDate(0, 0, 1))
	for day, name := range []string{"3", "4", "5"} {
		one(t, below(parent, name), nil, "", began.AddDate(0, 0, 2+day), lost)
	}
	pruned := func(what string, keep int, want ...string) {
		t.Helper()
		got, err := prune(t, parent, nil, keep, false, time.Now())
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		same(t, what, got, want...)
	}
	pruned("three of five lack a queue", 2, "1", "3")
	pruned("again", 2)
	same(t, "left", there(t, parent, nil), "5 complete", "4 complete", "2 complete")

	path := filepath.Join(parent.Name, "2", "queues", "000001", "000001.blocks")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := prune(t, parent, nil, 1, false, time.Now())
	same(t, "removed though only those that lack a queue can be verified", got)
	if err == nil || !strings.Contains(err.Error(), "lack queues") || !strings.Contains(err.Error(), filepath.Join(parent.Name, "2")) {
		t.Errorf("the only whole one is damaged: %v", err)
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	pruned("with the whole one", 1, "4")
	one(t, below(parent, "6"), nil, "", began.AddDate(0, 0, 5))
	pruned("with a newer whole one", 1, "2", "5")

	one(t, below(parent, "7"), nil, "v", began, lost)
	one(t, below(parent, "8"), nil, "v", began.AddDate(0, 0, 1), lost)
	pruned("of a kind that always lacks one", 1, "7")
}

// TestRemoveBrokenOff: what is left of a backup that was being removed is incomplete.
func TestRemoveBrokenOff(t *testing.T) {
	parent := Location{Name: t.TempDir()}
	l := below(parent, "x")
	one(t, l, nil, "", time.Now())
	parts := filepath.Join(l.Name, "queues", "000001")
	if err := os.Rename(parts, parts+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(parts, 0o700); err != nil {
		t.Fatal(err)
	}
	blocks := filepath.Join(parts, "000001.blocks") // a directory that is not empty cannot be removed
	if err := errors.Join(os.Mkdir(blocks, 0o700), os.WriteFile(filepath.Join(blocks, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(l.Name, manifestName)); err != nil {
		t.Fatal(err)
	}
	same(t, "after its first step", there(t, parent, nil), "x incomplete")
	if err := l.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "after it", there(t, parent, nil))
}

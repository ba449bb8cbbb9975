package archive

import (
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/quorumq"
)

// places returns a location of each kind.
func places(t *testing.T) map[string]Location {
	t.Helper()
	mem := s3mem.New()
	if err := mem.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(mem).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "user")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return map[string]Location{
		"directory": {Name: filepath.Join(t.TempDir(), "a", "b")},
		"tar":       {Name: filepath.Join(t.TempDir(), "a", "b.tar")},
		"s3":        {Name: "s3://backups/of/today", S3: S3Config{Endpoint: server.URL, Region: "us-east-1"}},
	}
}

// key returns keys that read and write, and keys that only write.
func key(t *testing.T) (both, public *Keys) {
	t.Helper()
	dir := t.TempDir()
	recipient, err := NewKey(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pub"), []byte(recipient+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if both, err = ReadKeys(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	if public, err = ReadKeys(filepath.Join(dir, "pub")); err != nil {
		t.Fatal(err)
	}
	if _, err := NewKey(filepath.Join(dir, "key")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key was written over another one: %v", err)
	}
	return both, public
}

// create writes a backup of two queues, one of which has several parts.
func create(t *testing.T, l Location, k *Keys) {
	t.Helper()
	s, err := l.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(s, k, Manifest{Cluster: "test", Version: "v"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Definitions(t.Context(), []byte(`{"queues":[]}`)); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		name     string
		messages int
		bytes    int
	}{{"small", 10, 10}, {"large", 100, 500_000}} {
		c := w.Copy()
		b := backup.NewWriter(func(b []byte) ([]byte, error) { return b, c.Block(t.Context(), b) })
		c.Begin()
		err := b.Head(&backup.Head{VHost: "/", Queue: q.name, UID: 1024, Messages: uint64(q.messages)})
		for i := range q.messages {
			m := backup.Message{TTLMs: quorumq.Unlimited, Priority: 4, Stored: []byte(strings.Repeat("secret"[i%6:], q.bytes/6))}
			err = errors.Join(err, b.Message(&m))
		}
		if err = errors.Join(err, b.End(), c.End()); err != nil {
			t.Fatal(err)
		}
	}
	m, err := w.Close(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Queues) != 2 || m.Queues[0].Messages != 10 || m.Queues[1].Messages != 100 || len(m.Queues[1].Parts) < 2 {
		t.Fatalf("the manifest is %+v", m)
	}
}

func TestPlaces(t *testing.T) {
	both, public := key(t)
	other, _ := key(t)
	for kind, l := range places(t) {
		t.Run(kind, func(t *testing.T) {
			if err := l.verify(t.Context(), nil); err == nil {
				t.Error("a backup is found where none is")
			}
			create(t, l, nil)
			if err := l.verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if err := l.verify(t.Context(), both); err == nil || !strings.Contains(err.Error(), "not encrypted") {
				t.Errorf("a plain backup, with a key: %v", err)
			}
			if _, err := l.Create(t.Context()); !errors.Is(err, ErrExists) {
				t.Errorf("a second backup in the same place: %v", err)
			}
		})
		t.Run(kind+"/encrypted", func(t *testing.T) {
			l.Name = strings.TrimSuffix(l.Name, ".tar") + "-encrypted"
			if kind == "tar" {
				l.Name += ".tar"
			}
			create(t, l, public)
			if err := l.verify(t.Context(), both); err != nil {
				t.Error(err)
			}
			for name, k := range map[string]*Keys{"no key": nil, "another key": other, "the public half": public} {
				if err := l.verify(t.Context(), k); err == nil {
					t.Errorf("it can be read with %s", name)
				}
			}
			if kind != "s3" {
				noneContains(t, l.Name, "secretsecret")
			}
		})
	}
}

// noneContains makes sure that no file has a text.
func noneContains(t *testing.T, root, text string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), text) {
			t.Errorf("%s is not encrypted", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedFiles flips a bit in each file of a backup, cuts it, and removes it.
func TestDamagedFiles(t *testing.T) {
	l := Location{Name: t.TempDir()}
	create(t, l, nil)
	files := 0
	err := filepath.WalkDir(l.Name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		whole, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		flipped := append([]byte(nil), whole...)
		flipped[len(flipped)/2] ^= 4
		for name, do := range map[string]func() error{
			"flipped": func() error { return os.WriteFile(path, flipped, 0o600) },
			"cut":     func() error { return os.WriteFile(path, whole[:len(whole)/2], 0o600) },
			"longer":  func() error { return os.WriteFile(path, append(flipped[:0:0], append(whole, 'x')...), 0o600) },
			"gone":    func() error { return os.Remove(path) },
		} {
			if err := do(); err != nil {
				return err
			}
			if err := l.verify(t.Context(), nil); err == nil && (name != "longer" || !strings.HasSuffix(path, manifestSum)) {
				t.Errorf("%s, %s, is not noticed", path, name)
			}
		}
		return os.WriteFile(path, whole, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 6 {
		t.Errorf("only %d files", files)
	}
	if err := l.verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestIncomplete makes sure that a backup that was not closed does not look like one.
func TestIncomplete(t *testing.T) {
	for kind, l := range places(t) {
		s, err := l.Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(s, nil, Manifest{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(w.Definitions(t.Context(), []byte("{}")), w.Abandon())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.verify(t.Context(), nil); err == nil {
			t.Errorf("%s: it can be read", kind)
		}
	}
}

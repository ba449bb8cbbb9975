package archive

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestEveryBit flips a bit in each byte of a small backup's files: each is noticed.
func TestEveryBit(t *testing.T) {
	l := Location{Name: filepath.Join(t.TempDir(), "b")}
	one(t, l, nil, "", time.Now())
	for _, name := range []string{manifestName, manifestSum, definitionsName, "queues/000001/000001.blocks"} {
		path := filepath.Join(l.Name, filepath.FromSlash(name))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range whole {
			if name == manifestSum && i >= 64 {
				break // a name for people
			}
			whole[i] ^= 1 << (i % 8)
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := l.verify(t.Context(), nil); err == nil {
				t.Fatalf("bit %d of byte %d of %s", i%8, i, name)
			}
			whole[i] ^= 1 << (i % 8)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// faulty is a service of S3 that answers some requests otherwise.
func faulty(t *testing.T, l Location, fault func(http.ResponseWriter, *http.Request) bool) Location {
	t.Helper()
	to, err := url.Parse(l.S3.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fault(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	l.S3.Endpoint = s.URL
	return l
}

// answer answers as S3 does.
func answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>`+code+`</Code><Message>made up</Message></Error>`) // the client may have gone
}

// TestS3Fails: errors that pass are tried again; others end the backup, which is then incomplete, and name the object.
func TestS3Fails(t *testing.T) {
	good := places(t)["s3"]
	t.Run("500 for a while", func(t *testing.T) {
		var left atomic.Int32
		left.Store(2)
		l := faulty(t, Location{Name: "s3://backups/passing", S3: good.S3}, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || left.Add(-1) < 0 {
				return false
			}
			answer(w, http.StatusInternalServerError, "InternalError")
			return true
		})
		one(t, l, nil, "", time.Now())
		if err := l.verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if left.Load() >= 0 {
			t.Error("no request failed")
		}
	})
	for code, status := range map[string]int{"AccessDenied": http.StatusForbidden, "ExpiredToken": http.StatusBadRequest, "InvalidAccessKeyId": http.StatusForbidden} {
		t.Run(code, func(t *testing.T) {
			l := faulty(t, Location{Name: "s3://backups/" + code, S3: good.S3}, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPut {
					return false
				}
				answer(w, status, code)
				return true
			})
			s, err := l.Create(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w, err := NewWriter(s, nil, Manifest{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			err = w.Definitions(t.Context(), []byte("{}"))
			if err == nil || !strings.Contains(err.Error(), "definitions.json in bucket backups") || !strings.Contains(err.Error(), "made up") {
				t.Errorf("%v", err)
			}
			if err := w.Abandon(); err != nil {
				t.Error(err)
			}
			if err := l.verify(t.Context(), nil); err == nil {
				t.Error("it counts as complete")
			}
		})
	}
	t.Run("it does not answer", func(t *testing.T) {
		l := faulty(t, Location{Name: "s3://backups/silent", S3: good.S3}, func(_ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the client go
			<-r.Context().Done()
			return true
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := l.Create(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a part is cut off", func(t *testing.T) {
		l := Location{Name: "s3://backups/cut", S3: good.S3}
		one(t, l, nil, "", time.Now())
		l = faulty(t, l, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, ".blocks") {
				return false
			}
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "x") // the rest is missing
			return true
		})
		if err := l.verify(t.Context(), nil); err == nil {
			t.Error("it is not noticed")
		}
	})
}

// TestAbandonTar: nothing is left of a tar file that is not completed, and the next try may have its name.
func TestAbandonTar(t *testing.T) {
	l := Location{Name: filepath.Join(t.TempDir(), "b.tar")}
	s, err := l.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(s, nil, Manifest{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Definitions(t.Context(), []byte("{}")), w.Abandon()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(l.Name)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	one(t, l, nil, "", time.Now())
	if err := l.verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestTarIsThere: a new backup replaces what is left of an incomplete one, as in a directory. A complete one, also one that is
// encrypted, is ErrExists; what is no backup, or cannot be read, stays too, and is none.
func TestTarIsThere(t *testing.T) {
	both, public := key(t)
	dir := t.TempDir()
	at := func(name string) Location { return Location{Name: filepath.Join(dir, name)} }
	one(t, at("complete.tar"), nil, "", time.Now())
	one(t, at("sealed.tar"), public, "", time.Now())
	one(t, at("cut.tar"), nil, "", time.Now())
	for name, object := range map[string]string{"left.tar": definitionsName, "left-sealed.tar": definitionsName + encryptedSuffix, "other.tar": "notes.txt"} {
		s, err := at(name).Create(t.Context())
		if err == nil {
			err = errors.Join(s.Put(t.Context(), object, []byte("{}")), s.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Truncate(at("cut.tar").Name, 1100), os.WriteFile(at("text.tar").Name, []byte("text"), 0o600), os.Symlink("nowhere", at("link.tar").Name)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"complete.tar", "sealed.tar", "cut.tar", "other.tar", "text.tar", "link.tar"} {
		_, err := at(name).Create(t.Context())
		if err == nil || !strings.Contains(err.Error(), at(name).Name) || !strings.Contains(err.Error(), "remove that one") {
			t.Errorf("%s: %v", name, err)
		}
		if complete := name == "complete.tar" || name == "sealed.tar"; errors.Is(err, ErrExists) != complete {
			t.Errorf("%s is taken for a backup, or not for one: %v", name, err)
		}
		if left, err := filepath.Glob(at("*" + temporarySuffix).Name); err != nil || len(left) > 0 {
			t.Errorf("%s is being written all the same: %q, %v", name, left, err)
		}
	}
	for name, k := range map[string]*Keys{"left.tar": nil, "left-sealed.tar": both} {
		one(t, at(name), k, "", time.Now())
		if err := at(name).verify(t.Context(), k); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStaleTar: a new backup removes what programs that were killed have left beside it, once nothing was written to it for a
// day, and nothing of others.
func TestStaleTar(t *testing.T) {
	dir, long := t.TempDir(), time.Now().Add(-StaleAfter-time.Minute)
	at := func(name string) Location { return Location{Name: filepath.Join(dir, name)} }
	one(t, at("complete.tar"), nil, "", time.Now())
	half(t, at("stale.tar"))
	half(t, at("fresh.tar"))
	stale, err := filepath.Glob(at("stale.*").Name)
	if err != nil || len(stale) != 1 {
		t.Fatal(stale, err)
	}
	err = errors.Join(os.WriteFile(at("other.1.tar.tmp").Name, []byte(strings.Repeat("text", 1000)), 0o600), os.Mkdir(at("directory.tar.tmp").Name, 0o700))
	for _, old := range []string{stale[0], at("other.1.tar.tmp").Name, at("complete.tar").Name, at("directory.tar.tmp").Name} {
		err = errors.Join(err, os.Chtimes(old, long, long))
	}
	if err != nil {
		t.Fatal(err)
	}
	one(t, at("next.tar"), nil, "", time.Now())
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		name, _, _ := strings.Cut(e.Name(), ".")
		names = append(names, name)
	}
	if want := []string{"complete", "directory", "fresh", "next", "other"}; !slices.Equal(names, want) {
		t.Errorf("%q are left, want %q", names, want)
	}
}

// TestTarIsFull: a tar file whose manifest cannot be written gets no name.
func TestTarIsFull(t *testing.T) {
	l := Location{Name: filepath.Join(t.TempDir(), "b.tar")}
	s, err := createTar(t.Context(), l.Name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(s, nil, Manifest{}, time.Now())
	if err := errors.Join(err, w.Definitions(t.Context(), []byte("{}")), s.file.Close()); err != nil {
		t.Fatal(err)
	}
	if s.file, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
		t.Skip("the system has no /dev/full")
	}
	s.w = tar.NewWriter(s.file)
	if _, err := w.Close(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(l.Name)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestTwoInOnePlace: of two backups that are made in one place the first one to be completed keeps its manifest.
func TestTwoInOnePlace(t *testing.T) {
	both, _ := key(t)
	for kind, l := range places(t) {
		t.Run(kind, func(t *testing.T) {
			var w [3]*Writer
			for i, k := range []*Keys{nil, nil, both} {
				s, err := l.Create(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				w[i], err = NewWriter(s, k, Manifest{Cluster: "test"}, time.Now())
				if err := errors.Join(err, w[i].Definitions(t.Context(), []byte("{}"))); err != nil {
					t.Fatal(err)
				}
			}
			first, err := w[0].Close(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, late := range w[1:] {
				_, err := late.Close(t.Context(), time.Now())
				if !errors.Is(err, ErrExists) && (err == nil || !strings.Contains(err.Error(), "another backup")) {
					t.Errorf("the later one: %v", err)
				}
			}
			found, err := l.look(t.Context(), nil)
			if err != nil || found == nil || found.Manifest == nil || found.Manifest.ID != first.ID {
				t.Errorf("%+v is there, %v; want %s", found, err, first.ID)
			}
		})
	}
}

// TestPlaceIsFull: a place that takes no more ends the backup, and nothing counts as complete.
func TestPlaceIsFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("the system has no /dev/full")
	}
	l := Location{Name: filepath.Join(t.TempDir(), "b")}
	s, err := l.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(s, nil, Manifest{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	// What is written goes to a device that is full.
	if err := os.Symlink("/dev/full", filepath.Join(l.Name, definitionsName+temporarySuffix)); err != nil {
		t.Fatal(err)
	}
	if err := w.Definitions(t.Context(), []byte("{}")); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
	if err := w.Abandon(); err != nil {
		t.Error(err)
	}
	if err := l.verify(t.Context(), nil); err == nil {
		t.Error("it counts as complete")
	}
}

// TestDamagedTar: a backup whose tar file is damaged is listed with the reason, wherever the damage is, and stays.
func TestDamagedTar(t *testing.T) {
	parent := Location{Name: t.TempDir()}
	l := below(parent, "x.tar")
	one(t, l, nil, "", time.Now())
	whole, err := os.ReadFile(l.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name     string
		from, to int // what is overwritten
		with     byte
	}{
		{"checksum of the first head", 148, 149, 1},
		{"name in the first head", 0, 100, 'x'},
		{"first head", 0, 512, 0},
		{"first objects", 0, 2048, 0},
		{"second head", 1024, 1536, 'x'},
		{"second head and what follows", 1024, 2048, 0},
	} {
		damaged := slices.Clone(whole)
		for i := x.from; i < x.to; i++ {
			damaged[i] = x.with
		}
		long := time.Now().Add(-2 * StaleAfter)
		if err := errors.Join(os.WriteFile(l.Name, damaged, 0o600), os.Chtimes(l.Name, long, long)); err != nil {
			t.Fatal(err)
		}
		same(t, x.name, there(t, parent, nil), "x.tar unreadable")
		all, err := parent.Backups(t.Context(), nil)
		if err != nil || len(all) != 1 || all[0].Err == nil || !strings.Contains(all[0].Err.Error(), l.Name+" is no whole tar file") {
			t.Errorf("%s: %+v, %v", x.name, all, err)
		}
		if got, err := prune(t, parent, nil, 1, false, time.Now()); err == nil || len(got) > 0 {
			t.Errorf("%s: %v is removed, %v", x.name, got, err)
		}
		if _, err := l.Create(t.Context()); err == nil {
			t.Errorf("%s: another backup replaces it", x.name)
		}
	}
}

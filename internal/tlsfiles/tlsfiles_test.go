package tlsfiles_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/authority"
	"github.com/quorate/quorate/internal/tlsfiles"
)

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) containing(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.all {
		if strings.Contains(line, s) {
			n++
		}
	}
	return n
}

func newAuthority(t *testing.T) *authority.Authority {
	t.Helper()
	a, err := authority.New("ca", time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *authority.Authority, name string, life time.Duration) authority.Pair {
	t.Helper()
	pair, err := a.Issue(authority.Request{CommonName: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life)})
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func write(t *testing.T, dir, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

// watched opens the files of a directory and watches them until the test's end.
func watched(t *testing.T, dir string, log *lines, check func(tls.Certificate, *x509.CertPool) error) *tlsfiles.Files {
	t.Helper()
	f, err := tlsfiles.Open(tlsfiles.Config{
		Setting: "tls.peer", Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt"),
		Check: check, Every: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { f.Watch(done) })
	t.Cleanup(func() {
		close(done)
		watching.Wait()
	})
	return f
}

func name(f *tlsfiles.Files) string {
	c, _ := f.Current()
	return c.Leaf.Subject.CommonName
}

// All that is wrong is reported at once, by setting and file, and nothing of a key is shown.
func TestOpen(t *testing.T) {
	ca := newAuthority(t)
	good, other := issue(t, ca, "n1", 365*24*time.Hour), issue(t, ca, "n2", time.Hour)
	for name, c := range map[string]struct {
		cert, key, ca []byte
		want          []string
	}{
		"good":               {good.Cert, good.Key, ca.Pair().Cert, nil},
		"nothing there":      {nil, nil, nil, []string{"tls.peer.cert: stat ", "tls.peer.key: stat ", "tls.peer.ca: stat "}},
		"key of another":     {good.Cert, other.Key, ca.Pair().Cert, []string{"tls.peer.cert ", "tls.peer.key ", "does not match"}},
		"no PEM":             {[]byte("x"), []byte("y"), []byte("z"), []string{"failed to find any PEM data", "tls.peer.ca ", "contains no PEM certificate"}},
		"certificate is cut": {good.Cert, good.Key, append([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), ca.Pair().Cert...), []string{"tls.peer.ca ", "cannot be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string][]byte{"tls.crt": c.cert, "tls.key": c.key, "ca.crt": c.ca} {
				if text != nil {
					write(t, dir, file, text)
				}
			}
			_, err := tlsfiles.Open(tlsfiles.Config{
				Setting: "tls.peer", Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt"),
			})
			if c.want == nil && err != nil {
				t.Error(err)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

// A secret of Kubernetes changes by one move of the link ..data; the old directory goes
// away.
func TestSymlinkSwap(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	put := func(version, name string) {
		pair := issue(t, ca, name, 365*24*time.Hour)
		real := filepath.Join(dir, version)
		if err := os.Mkdir(real, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, real, "tls.crt", pair.Cert)
		write(t, real, "tls.key", pair.Key)
		write(t, real, "ca.crt", ca.Pair().Cert)
		if err := errors.Join(os.Symlink(version, filepath.Join(dir, "..new")), os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	put("..1", "first")
	for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	var log lines
	f := watched(t, dir, &log, nil)
	if got := name(f); got != "first" {
		t.Fatal(got)
	}
	put("..2", "second")
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	until(t, "the second certificate is in use", func() bool { return name(f) == "second" })
	until(t, "it is logged", func() bool { return log.containing("new TLS files are in use") == 1 })
}

// Files that cannot be used leave the old material in force; that is logged once, and
// over when good ones come. A pair that is written file by file is taken as a whole.
func TestBadFilesKeepTheOld(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	put := func(pair authority.Pair) {
		write(t, dir, "tls.crt", pair.Cert)
		write(t, dir, "tls.key", pair.Key)
	}
	put(issue(t, ca, "first", 365*24*time.Hour))
	write(t, dir, "ca.crt", ca.Pair().Cert)
	var log lines
	refused := func(c tls.Certificate, _ *x509.CertPool) error {
		if c.Leaf.Subject.CommonName == "refused" {
			return errors.New("names another node")
		}
		return nil
	}
	f := watched(t, dir, &log, refused)
	second := issue(t, ca, "second", 365*24*time.Hour)
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() { write(t, dir, "tls.crt", second.Cert) }, "does not match"},
		{func() { write(t, dir, "ca.crt", []byte("no")) }, "contains no PEM certificate"},
		{func() {
			if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
		{func() {
			write(t, dir, "ca.crt", ca.Pair().Cert)
			put(issue(t, ca, "refused", 365*24*time.Hour))
		}, "names another node"},
	} {
		step.do()
		until(t, "the fault is logged", func() bool { return log.containing("cannot use") == i+1 && log.containing(step.want) > 0 })
		if got := name(f); got != "first" {
			t.Fatalf("step %d: certificate %q is in use", i, got)
		}
	}
	put(second)
	until(t, "the good pair is in use", func() bool { return name(f) == "second" })
	if log.containing("PRIVATE KEY") != 0 {
		t.Error("a key is in the log")
	}
}

// The end of a certificate is reported before it comes, once.
func TestEndIsReported(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	for life, want := range map[time.Duration]string{time.Hour: "certificate expires soon", -time.Minute: "certificate has expired"} {
		pair := issue(t, ca, "n1", life)
		write(t, dir, "tls.crt", pair.Cert)
		write(t, dir, "tls.key", pair.Key)
		write(t, dir, "ca.crt", ca.Pair().Cert)
		var log lines
		watched(t, dir, &log, nil)
		until(t, want, func() bool { return log.containing(want) == 1 })
	}
}

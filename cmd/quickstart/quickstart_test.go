package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/gobuild"
)

// screen is what a program writes while others read it.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// The quickstart in small: every step with its checks. Then what the README and the quickstart
// itself ask newcomers to type next is typed.
func TestQuickstart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes: not in short mode")
	}
	home := t.TempDir()
	binary := filepath.Join(home, "bin", "quorate")
	for program, pkg := range map[string]string{"quorate": "./cmd/node", "quoratectl": "./cmd/ctl"} {
		if err := gobuild.Program(t.Context(), "../..", pkg, filepath.Join(home, "bin", program)); err != nil {
			t.Fatal(err)
		}
	}
	var out screen
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		ended <- runShow(ctx, showConfig{
			Binary: binary, Dir: t.TempDir(), Out: &out, Messages: 5000, Rejected: 100, Expiring: 50, Poison: 3, Keep: true,
		})
	}()
	for !strings.HasSuffix(out.String(), "quickstart: ok\n") {
		select {
		case err := <-ended:
			t.Fatalf("%v\n%s", err, out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	said := out.String()
	where := regexp.MustCompile(`node n1 is process \d+, clients connect to (\S+), by AMQP to (\S+)`).FindStringSubmatch(said)
	if where == nil {
		t.Fatalf("it does not say where n1 is:\n%s", said)
	}
	for _, line := range append(typed(t, said), declaresOfPages(t)...) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = home, append(os.Environ(), "QUORATE_ADDRESSES="+where[1], "QUORATE_CONTEXTS="+filepath.Join(home, "contexts"))
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, text)
		}
	}
	conn, err := amqp091.Dial("amqp://guest:guest@" + where[2] + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	logInToPage(t, said)
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// logInToPage opens the web page where the quickstart says that it is, with the login that it names.
func logInToPage(t *testing.T, said string) {
	t.Helper()
	if begin, _, _ := strings.Cut(said, "\n2. "); !strings.Contains(begin, "The web page is") {
		t.Errorf("it does not say at the beginning where the web page is:\n%s", begin)
	}
	found := regexp.MustCompile(`The web page is (http://\S+/); log in as (\w+) with the password (\w+)`).FindStringSubmatch(said)
	if found == nil {
		t.Fatalf("it does not say where the web page is:\n%s", said)
	}
	form := url.Values{"user": {found[2]}, "password": {found[3]}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, found[1]+"ui/login", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultTransport.RoundTrip(r) // follows nothing
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if to := answer.Header.Get("Location"); answer.StatusCode != http.StatusSeeOther || to != "/ui/" {
		t.Errorf("the login was answered with %d to %q", answer.StatusCode, to)
	}
}

// typed are the commands that the README and the quickstart ask one to type.
func typed(t *testing.T, said string) (all []string) {
	t.Helper()
	readme := page(t, "README.md")
	for _, text := range []string{said, readme} {
		found := regexp.MustCompile(`(?m)^ *(bin/quoratectl .*)$`).FindAllStringSubmatch(text, -1)
		if len(found) < 5 {
			t.Errorf("%d commands in\n%s", len(found), text)
		}
		for _, f := range found {
			all = append(all, f[1])
		}
	}
	return all
}

// declaresOfPages declare the queues that the programs of docs/grpc.md would: the quickstart has
// some of its own.
func declaresOfPages(t *testing.T) (all []string) {
	t.Helper()
	for _, p := range []string{"docs/grpc.md", "examples/python/resume.py", "examples/javascript/resume.js"} {
		found := regexp.MustCompile(`resume\.(?:js|py) publish (\S+)`).FindStringSubmatch(page(t, p))
		if found == nil {
			t.Fatalf("%s names no queue", p)
		}
		all = append(all, fmt.Sprintf("bin/quoratectl queue declare %s", found[1]))
	}
	return all
}

func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

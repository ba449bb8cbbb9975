//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// asProgram makes the test's binary the program, which then has a terminal of its own.
const asProgram = "QUORATECTL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// screen is the terminal of a program under test.
type screen struct {
	*testing.T
	user *os.File // the user's end
	own  *os.File // the program's end
	sent shared
	cmd  *exec.Cmd
}

// startScreen runs the program on a terminal.
func startScreen(t *testing.T, size pty.Winsize, args ...string) *screen {
	t.Helper()
	user, own, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{T: t, user: user, own: own, cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	s.resize(size)
	s.cmd.Env = append(os.Environ(), asProgram+"=1")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = own, own, own
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&s.sent, user) // until the user's end is closed
	}()
	t.Cleanup(func() {
		_ = own.Close()
		_ = user.Close()
		<-read
	})
	return s
}

func (s *screen) resize(size pty.Winsize) {
	s.Helper()
	if err := pty.Setsize(s.user, &size); err != nil {
		s.Fatal(err)
	}
}

// press sends keys.
func (s *screen) press(keys string) {
	s.Helper()
	if _, err := io.WriteString(s.user, keys); err != nil {
		s.Fatal(err)
	}
}

// now is what the screen shows, without marks.
func (s *screen) now() []string {
	_, frames, _ := strings.Cut(s.sent.String(), enterScreen)
	all := strings.Split(frames, toTop)
	for i := len(all) - 1; i > 0; i-- {
		if frame, _, whole := strings.Cut(all[i], clearBelow); whole {
			return strings.Split(strings.NewReplacer(reverse, "", bold, "", normal, "").Replace(frame), endOfLine)
		}
	}
	return nil
}

// await waits until the screen is right.
func (s *screen) await(what string, right func(lines []string, text string) bool) {
	s.Helper()
	testcluster.Poll(s, what, func() error {
		lines := s.now()
		if text := strings.Join(lines, "\n"); !right(lines, text) {
			return errors.New(text)
		}
		return nil
	})
}

// The screen shows nodes and queues, does what keys say, follows the size of the terminal, continues at another node
// when its own is gone, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	c := testcluster.Start(t, 3)
	fillForTop(t, c)
	s := startScreen(t, pty.Winsize{Rows: 20, Cols: 160}, "-a", strings.Join(c.Addrs(), ","), "top", "--sort", "ready")
	before, err := term.GetState(int(s.own.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	s.await("the queues by ready messages", func(lines []string, text string) bool {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "QUEUE") })
		return at > 0 && len(lines) == 20 && strings.HasPrefix(lines[at+1], "orders.0 ") && strings.Contains(text, "node-2") &&
			strings.Contains(text, "sort: ready  1-9 of 30")
	})
	s.press("\x1b[B\x1b[B")
	s.await("two lines below", func(_ []string, text string) bool {
		return strings.Contains(text, "3-11 of 30") && !strings.Contains(text, "orders.1 ")
	})
	s.press("\x1b[F")
	s.await("the end", func(_ []string, text string) bool { return strings.Contains(text, "22-30 of 30") })
	s.press("/RARx\x7fe\r")
	s.await("the filter", func(_ []string, text string) bool {
		return strings.Contains(text, "filter: RARe  1-1 of 1") && strings.Contains(text, "\nrare ") && !strings.Contains(text, "orders")
	})
	s.press("ss\x1b")
	s.await("another order, without a filter", func(_ []string, text string) bool {
		return strings.Contains(text, "sort: dead_letters  1-9 of 30")
	})
	s.resize(pty.Winsize{Rows: 30, Cols: 60})
	s.await("a higher and narrower screen", func(lines []string, text string) bool {
		return len(lines) == 30 && strings.Contains(text, "1-19 of 30") && !slices.ContainsFunc(lines, func(l string) bool { return len([]rune(l)) > 60 })
	})
	s.resize(pty.Winsize{Rows: 20, Cols: 160})
	from := ""
	s.await("who sends samples", func(lines []string, _ string) bool {
		_, from, _ = strings.Cut(lines[0], "(from ")
		return strings.HasPrefix(from, "node-")
	})
	from = strings.TrimSuffix(from, ")")
	c.Kill(c.Index(from))
	s.await("another node", func(lines []string, text string) bool {
		return !strings.Contains(lines[0], "(from "+from) && strings.Contains(text, "! node "+from+" does not answer")
	})
	s.press("q")
	if err := s.cmd.Wait(); err != nil {
		t.Fatal(err, s.sent.String())
	}
	testcluster.Poll(t, "the shell's screen", func() error {
		if !strings.HasSuffix(s.sent.String(), leaveScreen) {
			return errors.New(s.sent.String())
		}
		return nil
	})
	if after, err := term.GetState(int(s.own.Fd())); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("the terminal was %+v and is %+v, %v", before, after, err)
	}
}

// fillForTop makes queues orders.0 to orders.28, of which the first has most messages, and rare.
func fillForTop(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	cl, err := client.Dial(t.Context(), client.Config{Addresses: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range 30 {
		name := fmt.Sprintf("orders.%d", i)
		if i == 29 {
			name = "rare"
		}
		if _, err := cl.DeclareQueue(t.Context(), client.Queue{Name: name}); err != nil {
			t.Fatal(err)
		}
		for range max(0, 3-i) {
			if _, err := cl.PublishOne(t.Context(), client.Message{RoutingKey: name}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// In a pipe there is one sample with rates, or a line of JSON for each.
func TestTopInAPipe(t *testing.T) {
	c := testcluster.Start(t, 1)
	fillForTop(t, c)
	top := func(want int, args ...string) string {
		t.Helper()
		var o, e bytes.Buffer
		if code := run(t.Context(), append([]string{"-a", c.Addrs()[0], "top"}, args...), &o, &e); code != want {
			t.Fatalf("top %v: %d, want %d: %s%s", args, code, want, o.String(), e.String())
		}
		return o.String() + e.String()
	}
	if text := top(exitUsage); !strings.Contains(text, "use --once") {
		t.Error(text)
	}
	if text := top(exitUsage, "--once", "--sort", "size"); !strings.Contains(text, "dead_letters") {
		t.Error(text)
	}
	if text := top(0, "--once", "--sort", "ready", "--filter", "Orders"); !strings.Contains(text, "\norders.0") || strings.Contains(text, "rare") || strings.Contains(text, "\x1b") {
		t.Error(text)
	}
	cl, err := client.Dial(t.Context(), client.Config{Addresses: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.WatchCluster(t.Context(), client.WatchClusterRequest{Sort: "size"}, nil); err == nil || !strings.Contains(err.Error(), "dead_letters") {
		t.Errorf("an unknown order: %v", err)
	}
	var x struct {
		RatesOver float64 `json:"rates_over_ms"`
		Matching  int
		Queues    []struct{ Name string }
		Nodes     []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(top(0, "--once", "--json")), &x); err != nil || x.RatesOver < 1000 || x.Matching != 30 || len(x.Queues) != 30 || len(x.Nodes) != 1 {
		t.Errorf("%v: %+v", err, x)
	}
}

// Keys are read however a terminal sends them.
func TestParseKeys(t *testing.T) {
	got := parseKeys([]byte("q\x1b[A\x1bOB\x1b[5~ü\x1b[200~/\x01\r\x1b"))
	if want := []key{"q", keyUp, keyDown, keyPageUp, "ü", "/", keyEnter, keyEscape}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// While no sample comes, the screen says so, and a name of a queue cannot steer the terminal.
func TestTopScreen(t *testing.T) {
	s := newTopScreen(client.WatchClusterRequest{Sort: "rate"})
	if text := strings.Join(s.lines(80, 24), "\n"); !strings.Contains(text, "waiting for the first sample") {
		t.Error(text)
	}
	cpu := 1.25
	s.show(client.ClusterSample{
		Nodes: []client.NodeFigures{{ID: "n1", Answers: true, CPU: &cpu, Processors: 4}, {ID: "n2"}}, Alarms: []string{"n1: low"},
		Queues: []client.QueueFigures{{Name: "a\x1b[2J", Ready: 1_234_567, Bytes: 3 << 20}},
	}, time.Now().Add(-time.Minute))
	text := strings.Join(s.lines(200, 24), "\n")
	for _, want := range []string{"no sample for 1m0s", "125%/4", "silent", "! n1: low", `a\x1b[2J`, "1.2M", "3.0 MiB"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if ends := s.press("x"); ends || !s.press(keyInterrupt) {
		t.Error("x ends it, or ctrl-c does not")
	}
}

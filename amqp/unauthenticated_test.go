package amqp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// manyConnections is how many connections TestUnauthenticatedConnections makes, unless the environment has another
// number.
const manyConnections = 10_000

// unauthenticatedEnv is a variable that the process of clients gets: how many connections to make, and to which
// address.
const unauthenticatedEnv = "QUORATE_UNAUTHENTICATED_OF"

// memory returns how many bytes of heap and stacks this process uses.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) // far below
}

// howMany returns how many unauthenticated clients to make: each takes a file descriptor of this process.
func howMany(t *testing.T) int {
	t.Helper()
	n := manyConnections
	if v := os.Getenv("QUORATE_UNAUTHENTICATED"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	const others = 500 // of the cluster
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if most := int(min(files.Max, 1<<30))*3/8 - others; n > most { // bounded; the gate's share for unauthenticated clients
		t.Logf("%d connections rather than %d: a process may have %d files", most, n, files.Max)
		n = most
	}
	return n
}

// unauthenticatedProcess is a second process that connects and sends nothing; it has file descriptors of its own.
type unauthenticatedProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *bufio.Scanner
}

func startUnauthenticated(t *testing.T, n int, address string) *unauthenticatedProcess {
	t.Helper()
	s := &unauthenticatedProcess{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	s.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", unauthenticatedEnv, n, address))
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		s.in, err = s.cmd.StdinPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.said = bufio.NewScanner(out)
	return s
}

// hear waits until the other process writes the given line.
func (s *unauthenticatedProcess) hear(what string) {
	s.t.Helper()
	for s.said.Scan() {
		if s.said.Text() == what {
			return
		}
		if !strings.HasPrefix(s.said.Text(), "connections: ") {
			s.t.Fatalf("the process of connections: %s", s.said.Text())
		}
	}
	s.t.Fatalf("the process of connections ended and did not say %q", what)
}

// leave makes the other process close all connections, and waits until the process has ended.
func (s *unauthenticatedProcess) leave() {
	s.t.Helper()
	if err := s.in.Close(); err != nil {
		s.t.Error(err)
	}
	for s.said.Scan() { // to its end
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Error(err)
	}
}

// These lines are what the other process writes.
const (
	firstThere = "connections: the first is there"
	allThere   = "connections: all are there"
	firstEnded = "connections: the first has ended"
	allEnded   = "connections: all have ended"
)

// TestMain runs the tests, or the clients if this is the process of clients.
func TestMain(m *testing.M) {
	asked := os.Getenv(unauthenticatedEnv)
	if asked == "" {
		os.Exit(m.Run())
	}
	if err := runUnauthenticated(asked); err != nil {
		say(err.Error())
		os.Exit(1)
	}
}

func say(what string) { _, _ = fmt.Fprintln(os.Stdout, what) }

// runUnauthenticated connects once, reports that, and waits for a word. Then it makes the other connections, and
// reports when all are there, when the first has ended, and when all have ended. It ends with its input.
func runUnauthenticated(asked string) error {
	count, address, _ := strings.Cut(asked, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	all := make([]net.Conn, n)
	for i := range all {
		if all[i], err = dialPatiently(context.Background(), address); err != nil {
			return err
		}
		if i == 0 { // the others come in any order
			say(firstThere)
			if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
				return err
			}
		}
	}
	say(allThere)
	var ended sync.WaitGroup
	for i, nc := range all {
		ended.Go(func() {
			_, _ = nc.Read(make([]byte, 1))
			if i == 0 {
				say(firstEnded)
			}
		})
	}
	go func() {
		ended.Wait()
		say(allEnded)
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	for _, nc := range all {
		_ = nc.Close()
	}
	return err
}

// dialPatiently connects, and tries again if too many come at once for the kernel.
func dialPatiently(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil || ctx.Err() != nil || !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
			return nc, err
		}
	}
}

// Connections that never log in cost little, give way to those that do, and end by themselves. Other clients continue
// meanwhile.
func TestUnauthenticatedConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	n := howMany(t)
	c := testcluster.Start(t, 1)
	t.Run("crowd", func(t *testing.T) { crowd(t, c, n) })
	t.Run("time", func(t *testing.T) { outOfTime(t, c, n) })
}

func awaitConnections(t *testing.T, s *amqp.Server, n int) {
	t.Helper()
	testcluster.Poll(t, fmt.Sprintf("%d connections", n), func() error {
		if x := s.Stats(); x.Connections != int64(n) {
			return errorOf(x)
		}
		return nil
	})
}

// crowd fills a server up to its bound.
func crowd(t *testing.T, c *testcluster.Cluster, n int) {
	g := gate.New(gate.Config{MaxUnauthenticated: n, MaxPerAddress: n, LoginTimeout: time.Hour, MaxConnections: 2 * n})
	s, address := serve(t, c, amqp.Config{Gate: g})
	work(t, address) // start what begins with the first client
	awaitConnections(t, s, 0)
	before, goroutines := memory(), runtime.NumGoroutine()
	began := time.Now()
	they := startUnauthenticated(t, n, address)
	they.hear(firstThere)
	awaitConnections(t, s, 1)
	if _, err := they.in.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	they.hear(allThere)
	awaitConnections(t, s, n)
	each := (memory() - before) / int64(n)
	t.Logf("%d connections in %v, %d bytes for each", n, time.Since(began).Round(time.Millisecond), each)
	if most := int64(20 << 10); each > most {
		t.Errorf("%d bytes for each connection that sends nothing, want at most %d", each, most)
	}
	// The oldest one gives way to a client that logs in, and no other does.
	work(t, address)
	they.hear(firstEnded)
	awaitConnections(t, s, n-1)
	if x := g.Stats(); x.CrowdedOut != 1 {
		t.Errorf("%+v", x)
	}
	they.leave()
	awaitConnections(t, s, 0)
	testcluster.Poll(t, "no goroutine is left", func() error {
		if now := runtime.NumGoroutine(); now > goroutines {
			return errorOf(now - goroutines)
		}
		return nil
	})
}

// work does what a well-behaved client does.
func work(t *testing.T, address string) {
	t.Helper()
	p := connect(t, address)
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
	p.publish("", "q", false, message.Message{Body: []byte("x")})
	p.send(1, &wire.BasicConsume{Queue: "q", NoAck: true})
	want[*wire.BasicConsumeOK](p)
	want[*wire.BasicDeliver](p)
	if _, body := p.content(); string(body) != "x" {
		t.Errorf("%q", body)
	}
	p.send(0, &wire.ConnectionClose{ReplyCode: 200})
	want[*wire.ConnectionCloseOK](p)
	p.ended()
	_ = p.nc.Close()
}

// outOfTime lets the time to log in run out for all unauthenticated clients.
func outOfTime(t *testing.T, c *testcluster.Cluster, n int) {
	g := gate.New(gate.Config{MaxUnauthenticated: n, MaxPerAddress: n, LoginTimeout: time.Second, MaxConnections: 2 * n})
	s, address := serve(t, c, amqp.Config{Gate: g})
	they := startUnauthenticated(t, n, address)
	they.hear(firstThere)
	if _, err := they.in.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	they.hear(allEnded)
	they.leave()
	awaitConnections(t, s, 0)
	if x := g.Stats(); x.CrowdedOut != 0 || x.Refused != 0 {
		t.Errorf("%+v", x)
	}
	if x := s.Stats(); x.Refused != uint64(n) { // positive
		t.Errorf("%+v, want %d refused", x, n)
	}
}

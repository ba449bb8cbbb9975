//go:build linux

package attack

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// What the nodes may have that are attacked with little memory: some more than one needs at rest with its caches.
const (
	goLimit    = 230 << 20
	groupLimit = 256 << 20
	groupRoot  = "/sys/fs/cgroup/memory"
)

// group is a control group of the kernel whose processes end when they take more than its limit of memory.
type group struct{ dir, old string }

// limitMemory has what this process starts in a control group, until start returns. Without the right to make one GOMEMLIMIT
// alone limits the node, and there is none.
func limitMemory(t *testing.T, bytes int64, start func()) (g *group) {
	t.Helper()
	g = &group{dir: filepath.Join(groupRoot, fmt.Sprintf("quorate-attack-%d", os.Getpid()))}
	groups, err := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		if _, path, is := strings.Cut(strings.TrimSpace(line), ":memory:"); is {
			g.old = filepath.Join(groupRoot, path)
		}
	}
	if _, missing := os.Stat(filepath.Join(g.old, "cgroup.procs")); missing != nil {
		g.old = groupRoot // as in a container
	}
	if err == nil {
		err = os.Mkdir(g.dir, 0o755)
	}
	if err == nil {
		t.Cleanup(func() { g.remove(t) })
		err = g.write("memory.limit_in_bytes", bytes)
	}
	if err == nil {
		err = g.write("cgroup.procs", int64(os.Getpid()))
	}
	if err != nil {
		t.Logf("no control group limits the node's memory, but GOMEMLIMIT alone: %v", err)
		start()
		return nil
	}
	start()
	if err := (&group{dir: g.old}).write("cgroup.procs", int64(os.Getpid())); err != nil {
		t.Fatal(err)
	}
	return g
}

// remove ends the group, whose processes have ended or end now.
func (g *group) remove(t *testing.T) {
	for deadline := time.Now().Add(soon); ; time.Sleep(poll) {
		err := os.Remove(g.dir)
		if err == nil || time.Now().After(deadline) {
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
}

func (g *group) write(file string, n int64) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(n, 10)), 0)
}

// figure returns a number of the group.
func (g *group) figure(v *victim, file string) string {
	v.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		v.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// stuck is a connection that lets so many bytes through and then blocks, each way, until it is closed.
type stuck struct {
	net.Conn
	reads, writes atomic.Int64 // that are left
	closed        chan struct{}
}

func (s *stuck) pass(left *atomic.Int64, b []byte, do func([]byte) (int, error)) (int, error) {
	if left.Add(-int64(len(b))) < 0 {
		<-s.closed
		return 0, net.ErrClosed
	}
	return do(b)
}

func (s *stuck) Read(b []byte) (int, error) {
	if s.reads.Load() <= 0 {
		<-s.closed
		return 0, net.ErrClosed
	}
	n, err := s.Conn.Read(b)
	s.reads.Add(-int64(n))
	return n, err
}

func (s *stuck) Write(b []byte) (int, error) { return s.pass(&s.writes, b, s.Conn.Write) }

// end closes the connection.
func (s *stuck) end() {
	close(s.closed)
	_ = s.Close()
}

// amqpStuck opens a connection that blocks after so many bytes each way, until the test's end.
func (v *victim) amqpStuck(reads, writes int64) *amqp091.Channel {
	v.Helper()
	ch, end, err := v.dialStuck(v.Context(), reads, writes)
	if err != nil {
		v.Fatal(err, v.logs())
	}
	v.Cleanup(end)
	return ch
}

// dialStuck is amqpStuck with an error, and with what closes the connection.
func (v *victim) dialStuck(ctx context.Context, reads, writes int64) (ch *amqp091.Channel, end func(), err error) {
	s := &stuck{closed: make(chan struct{})}
	s.reads.Store(reads)
	s.writes.Store(writes)
	c, err := amqp091.DialConfig("amqp://guest:guest@"+v.node.AMQP, amqp091.Config{Dial: func(network, address string) (net.Conn, error) {
		var err error
		s.Conn, err = (&net.Dialer{Timeout: soon}).DialContext(ctx, network, address)
		return s, err
	}})
	if err != nil {
		return nil, nil, err
	}
	if ch, err = c.Channel(); err != nil {
		s.end()
		return nil, nil, err
	}
	return ch, s.end, nil
}

// unfinishedOverAMQP publishes messages that end a MiB too early, each on a connection of its own, until the context ends.
func (v *victim) unfinishedOverAMQP(ctx context.Context, messages, bytes int) {
	body := make([]byte, bytes)
	for range messages {
		ch, end, err := v.dialStuck(ctx, 1<<30, int64(bytes-1<<20))
		if err != nil {
			break // the node's right
		}
		defer end()
		go func() {
			_ = ch.PublishWithContext(ctx, "", "steady", false, false, amqp091.Publishing{Body: body}) // it blocks until the end
		}()
	}
	<-ctx.Done()
}

// A node with little memory is attacked by users that have logged in, with all at once that they can leave unfinished and unread.
// It does not end, and others continue.
func TestLittleMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", strconv.Itoa(goLimit))
	if testing.Short() {
		t.Skip("starts a process: not in short mode")
	}
	if _, err := program(); err != nil { // which takes more
		t.Fatal(err)
	}
	var v *victim
	g := limitMemory(t, groupLimit, func() { v = attacked(t, "") })
	h := v.behave(1000)
	h.more(10)
	const large, deliveries = 8 << 20, 64
	cl, err := client.Dial(t.Context(), client.Config{Addresses: []string{v.node.Client}, FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.DeclareQueue(t.Context(), client.Queue{Name: "large"}); err != nil {
		t.Fatal(err)
	}
	p, err := cl.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range deliveries {
		if r, err := p.Publish(t.Context(), client.Message{RoutingKey: "large", Body: make([]byte, 2<<20)}); err != nil || r.Outcome != client.Confirmed {
			t.Fatalf("%v, %v", r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	v.unfinished(ctx, 1000, large, guest) // 1,000 streams of a connection
	for range 7 {
		v.unfinished(ctx, 200, large, guest)
	}
	for range 12 { // messages over AMQP that stop before their end
		ch := v.amqpStuck(1<<30, large-1<<20)
		go func() {
			_ = ch.PublishWithContext(ctx, "", "honest", false, false, amqp091.Publishing{Body: make([]byte, large)})
		}()
	}
	for range 12 { // consumers that read no more
		ch := v.amqpStuck(16<<10, 1<<30)
		if _, err := ch.ConsumeWithContext(ctx, "large", "", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		cc := v.dial()
		for range 8 {
			s, err := brokerv1.NewBrokerClient(cc).Consume(metadata.AppendToOutgoingContext(ctx, "authorization", guest))
			if err != nil {
				t.Fatal(err)
			}
			open := &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Open{Open: &brokerv1.ConsumeOpen{Queue: "large"}}}
			_ = s.Send(open) // it may be refused
		}
	}
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
		h.more(5)
		if _, running := v.node.Running(); !running {
			t.Fatal("the node has ended")
		}
	}
	t.Logf("the node takes %d MiB at most, with %d MiB as limit of Go; %v waited for room", v.peak()>>20, goLimit>>20, v.figure(`quorate_incoming_waiting{protocol="grpc"}`))
	if g != nil {
		t.Logf("control group of %d MiB: %s bytes at most; %s times it was full; %s", groupLimit>>20, g.figure(v, "memory.max_usage_in_bytes"),
			g.figure(v, "memory.failcnt"), g.figure(v, "memory.oom_control"))
	}
	cancel()
	h.more(50)
	h.end()
}

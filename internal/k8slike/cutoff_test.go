//go:build linux

package k8slike

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/client"
)

const (
	faultTime = 6 * time.Second
	// longestPause is far more than a client waits, and far less than the fault lasts.
	longestPause = 5 * time.Second
	nowhere      = "02:00:de:ad:00:00" // a hardware address that nobody has
)

// Clients of a node that cannot serve go on: the node goes around a link that is cut, or they
// go to another one.
func TestClientsOfCutOffNodes(t *testing.T) { inNamespaces(t, cutOff) }

func cutOff(t *testing.T, binary string) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := newWorld(ctx, t, binary)
	for _, p := range w.pods {
		if err := ownVolume(t, p); err != nil {
			t.Logf("the volumes are no file systems of their own: %v", err)
			break
		}
	}
	w.startAll(begin{pod: 0}, begin{pod: 1}, begin{pod: 2})
	c := dialOnly(ctx, t, w, nil)
	if _, err := c.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	t.Run("link", func(t *testing.T) { linkCut(ctx, t, w, c) })
	t.Run("isolated", func(t *testing.T) { isolated(ctx, t, w, c) })
	t.Run("frozen", func(t *testing.T) { frozen(ctx, t, w, c) })
}

// leaderOf returns the pod that leads the queue, and one that follows.
func leaderOf(ctx context.Context, t *testing.T, w *world, c *client.Client) (leader, follower *pod) {
	t.Helper()
	q, err := c.GetQueue(ctx, client.QueueRef{Name: "q"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range w.pods {
		if p.name == q.Leader {
			leader = p
		} else {
			follower = p
		}
	}
	return leader, follower
}

// silence lets nothing from a pod reach others, without a notice to it; again undoes that.
func silence(t *testing.T, from *pod, to ...*pod) (again func()) {
	t.Helper()
	neighbour := func(args ...string) error {
		out, err := run("nsenter", append([]string{"-t", strconv.Itoa(from.cmd.Process.Pid), "-n", "ip", "neigh"}, args...)...)
		if err != nil {
			return fmt.Errorf("ip neigh %v: %w: %s", args, err, out)
		}
		return nil
	}
	for _, p := range to {
		if err := neighbour("replace", p.address, "lladdr", nowhere, "dev", "eth0", "nud", "permanent"); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, p := range to {
			if err := neighbour("del", p.address, "dev", "eth0"); err != nil {
				t.Error(err)
			}
		}
	}
}

// dialOnly makes a client that knows all pods and reaches only one until it is let go.
func dialOnly(ctx context.Context, t *testing.T, w *world, only *pod) *onlyClient {
	t.Helper()
	x := &onlyClient{}
	cfg := client.Config{FixedAddresses: true, DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if only != nil && !x.free.Load() && address != only.address+":7070" {
				return nil, errors.New("not yet")
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}),
	}}
	for _, p := range w.pods {
		cfg.Addresses = append(cfg.Addresses, p.address+":7070")
	}
	var err error
	if x.Client, err = client.Dial(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func run(command string, args ...string) (string, error) {
	out, err := exec.Command(command, args...).CombinedOutput() //nolint:noctx // ends by itself
	return strings.TrimSpace(string(out)), err
}

// ownVolume puts a pod's volume on a file system of its own.
func ownVolume(t *testing.T, p *pod) error {
	t.Helper()
	image := filepath.Join(p.w.dir, p.name, "image")
	for _, c := range [][]string{
		{"truncate", "--size", "1G", image},
		{"mkfs.ext4", "-q", image},
		{"mount", "-o", "loop", image, p.data},
	} {
		if out, err := run(c[0], c[1:]...); err != nil {
			return fmt.Errorf("%v: %w: %s", c, err, out)
		}
	}
	t.Cleanup(func() {
		_, _ = run("fsfreeze", "--unfreeze", p.data) // if a test has left it so
		if out, err := run("umount", "--lazy", p.data); err != nil {
			t.Error(err, out)
		}
	})
	return errors.Join(os.Chown(p.data, 0, user), os.Chmod(p.data, 0o775|os.ModeSetgid))
}

type onlyClient struct {
	*client.Client
	free atomic.Bool // all pods are reached
}

// pause is the longest time without a confirm.
type pause struct {
	last    time.Time
	longest time.Duration
	ended   error         // why the first connection ended
	ends    chan struct{} // is closed then
	count   int
}

func (p *pause) confirmed() {
	now := time.Now()
	if !p.last.IsZero() {
		p.longest = max(p.longest, now.Sub(p.last))
	}
	p.last = now
	p.count++
}

// publishing runs publishers at a pod, one for each protocol, while do does something to it.
func publishing(ctx context.Context, t *testing.T, w *world, at *pod, do func(amqp *pause)) (grpc, amqp *pause) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	x := dialOnly(ctx, t, w, at)
	grpc, amqp = &pause{}, &pause{ends: make(chan struct{})}
	ready, done := make(chan struct{}, 2), make(chan error, 2)
	go func() { done <- grpc.overGRPC(ctx, x, ready) }()
	go func() { amqp.overAMQP(ctx, w, at, ready); done <- nil }()
	await := func(n int, c <-chan struct{}) {
		t.Helper()
		for range n {
			select {
			case <-c:
			case err := <-done:
				t.Fatal("a publisher ended: ", err)
			}
		}
	}
	await(2, ready)
	x.free.Store(true)
	do(amqp)
	stop()
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	grpc.confirmed() // what was not confirmed until now counts
	amqp.confirmed()
	t.Logf("longest pause over gRPC %v of %d, over AMQP %v of %d (%v)", grpc.longest.Round(time.Millisecond), grpc.count,
		amqp.longest.Round(time.Millisecond), amqp.count, amqp.ended)
	return grpc, amqp
}

const warm = 20 // confirms before anything is done

func (p *pause) overGRPC(ctx context.Context, c *onlyClient, ready chan<- struct{}) error {
	publisher, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	for {
		if _, err := publisher.Publish(ctx, client.Message{RoutingKey: "q", Body: []byte("x")}); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // it was ordered to end
			}
			return err
		}
		if p.confirmed(); p.count == warm {
			ready <- struct{}{}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// overAMQP goes to the next pod when its connection ends, as clients with several addresses do.
func (p *pause) overAMQP(ctx context.Context, w *world, at *pod, ready chan<- struct{}) {
	addresses := []string{at.address}
	for _, other := range w.pods {
		if other != at {
			addresses = append(addresses, other.address)
		}
	}
	for i := 0; ctx.Err() == nil; {
		err := p.amqpAt(ctx, addresses[i%len(addresses)], ready)
		if p.count == 0 { // a busy machine took too long for the connection
			continue
		}
		if p.ended == nil {
			p.ended = err
			close(p.ends)
		}
		i++
	}
}

func (p *pause) amqpAt(ctx context.Context, address string, ready chan<- struct{}) error {
	conn, err := amqp091.DialConfig("amqp://guest:guest@"+address+":5672", amqp091.Config{Dial: amqp091.DefaultDial(time.Second)})
	if err != nil {
		time.Sleep(probing / 10)
		return err
	}
	defer conn.Close() //nolint:errcheck // it may have ended
	closed := conn.NotifyClose(make(chan *amqp091.Error, 1))
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	for err == nil {
		var c *amqp091.DeferredConfirmation
		if c, err = ch.PublishWithDeferredConfirm("", "q", false, false, amqp091.Publishing{Body: []byte("x")}); err != nil {
			break
		}
		var acked bool
		if acked, err = c.WaitContext(ctx); err == nil && !acked {
			err = errors.New("not confirmed")
		}
		if err == nil {
			if p.confirmed(); p.count == warm {
				ready <- struct{}{}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	if e := <-orDone(ctx, closed); e != nil {
		return e
	}
	return err
}

// orDone returns c, or a closed channel if ctx has ended.
func orDone(ctx context.Context, c <-chan *amqp091.Error) <-chan *amqp091.Error {
	out := make(chan *amqp091.Error, 1)
	go func() {
		defer close(out)
		select {
		case e := <-c:
			out <- e
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}()
	return out
}

// log reports whether a client waited for the end of the fault. It is a figure and no condition:
// a machine that lacks processors would fail it without reason.
func (p *pause) log(t *testing.T, who string) {
	t.Helper()
	if p.longest > longestPause {
		t.Logf("SLOW: clients of %s had no confirm for %v", who, p.longest)
	}
}

// The link between the leader's node and a follower's is cut, both ways and in silence.
func linkCut(ctx context.Context, t *testing.T, w *world, c *onlyClient) {
	leader, follower := leaderOf(ctx, t, w, c.Client)
	grpc, amqp := publishing(ctx, t, w, follower, func(*pause) {
		one, other := silence(t, leader, follower), silence(t, follower, leader)
		time.Sleep(faultTime)
		one()
		other()
	})
	grpc.log(t, "the follower")
	amqp.log(t, "the follower")
	if amqp.ended != nil && !strings.Contains(amqp.ended.Error(), "canceled") {
		t.Errorf("the AMQP connection ended: %v", amqp.ended)
	}
}

// The leader's node reaches no other, but its clients reach it.
func isolated(ctx context.Context, t *testing.T, w *world, c *onlyClient) {
	leader, _ := leaderOf(ctx, t, w, c.Client)
	grpc, amqp := publishing(ctx, t, w, leader, func(amqp *pause) {
		var again []func()
		for _, p := range w.pods {
			if p != leader {
				again = append(again, silence(t, leader, p), silence(t, p, leader))
			}
		}
		time.Sleep(faultTime)
		select { // a busy node takes longer to see that it is alone
		case <-amqp.ends:
		case <-time.After(patience):
		}
		for _, f := range again {
			f()
		}
	})
	grpc.log(t, "the isolated leader")
	amqp.log(t, "the isolated leader")
	if amqp.ended == nil || !strings.Contains(amqp.ended.Error(), "320") {
		t.Errorf("the AMQP connection ended with %v, want 320", amqp.ended)
	}
}

// The disk of the leader's node takes no writes.
func frozen(ctx context.Context, t *testing.T, w *world, c *onlyClient) {
	leader, _ := leaderOf(ctx, t, w, c.Client)
	if _, err := run("mountpoint", leader.data); err != nil {
		t.Skip("the volumes are no file systems of their own here")
	}
	grpc, amqp := publishing(ctx, t, w, leader, func(*pause) {
		if out, err := run("fsfreeze", "--freeze", leader.data); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		time.Sleep(faultTime)
		if out, err := run("fsfreeze", "--unfreeze", leader.data); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	grpc.log(t, "the node whose disk was frozen")
	amqp.log(t, "the node whose disk was frozen")
}

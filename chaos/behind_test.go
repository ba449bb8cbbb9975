package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// behind is a cluster of processes of which one is made to be behind.
type behind struct {
	*testing.T
	*Cluster
	ctx context.Context
}

// logins are the ways to run without and with logins; the lines belong to the section auth.
var logins = map[string]string{"none": "  mode: none\n", "password": "  mode: password\n"}

func newBehind(t *testing.T, settings string) *behind {
	t.Helper()
	binary := filepath.Join("..", "bin", "quorate")
	if _, err := os.Stat(binary); err != nil || testing.Short() {
		t.Skipf("starts processes of %s, which `make build` makes; without -short (%v)", binary, err)
	}
	c, err := NewCluster(ClusterConfig{Binary: binary, Dir: t.TempDir(), Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	t.Cleanup(c.Kill)
	b := &behind{T: t, Cluster: c, ctx: ctx}
	b.must(c.Start(ctx))
	return b
}

func (b *behind) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// poll waits for a condition.
func (b *behind) poll(what string, f func() error) {
	b.Helper()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-b.ctx.Done():
			b.Fatalf("not in time: %s: %v", what, err)
		case <-time.After(pollEvery):
		}
	}
}

// raw calls a node without a client of ours, which would look for another one.
func (b *behind) raw(n *Node) (*grpc.ClientConn, context.Context) {
	b.Helper()
	conn, err := grpc.NewClient(n.Client, grpc.WithTransportCredentials(insecure.NewCredentials()))
	b.must(err)
	b.Cleanup(func() { _ = conn.Close() })
	return conn, metadata.AppendToOutgoingContext(b.ctx, "authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
}

// declare makes queues through a node, and waits until they can be published to.
func (b *behind) declare(n *Node, queues ...string) {
	b.Helper()
	conn, ctx := b.raw(n)
	for _, q := range queues {
		b.poll("declaring "+q, func() error {
			_, err := brokerv1.NewAdminClient(conn).DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: q})
			return err
		})
	}
}

// holds waits until a queue has settled, and returns how many messages it has.
func (b *behind) holds(n *Node, queue string) uint64 {
	b.Helper()
	conn, ctx := b.raw(n)
	var held uint64
	b.poll("looking at "+queue, func() error {
		q, err := brokerv1.NewAdminClient(conn).GetQueue(ctx, &brokerv1.GetQueueRequest{Name: queue})
		held = q.GetQueue().GetStats().GetMessagesReady()
		return err
	})
	return held
}

func message(queue string) *brokerv1.PublishOneRequest {
	return &brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: queue, Body: []byte("x")}}
}

func amqpURL(n *Node) string { return "amqp://guest:guest@" + n.AMQP + "/" }

// EX-16: a node that starts alone, with a catalog that is behind, confirms nothing, and does not
// call a password wrong; it shows operators why.
func TestNodeAloneServesNobody(t *testing.T) {
	t.Parallel()
	for mode, settings := range logins {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBehind(t, settings)
			n := b.Nodes[0]
			b.must(n.Kill())
			b.declare(b.Nodes[1], "new")
			b.Kill()
			b.must(n.Start())
			conn, ctx := b.raw(n)
			b.poll("the node's listeners", func() error {
				_, err := brokerv1.NewAccessClient(conn).WhoAmI(ctx, &brokerv1.WhoAmIRequest{})
				if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "connection") {
					return err
				}
				return nil
			})
			for range 20 {
				r, err := brokerv1.NewBrokerClient(conn).PublishOne(ctx, message("new"))
				if status.Code(err) != codes.Unavailable {
					t.Fatalf("a publish to a queue that the node does not know: %v, %v; want UNAVAILABLE", r.GetResult(), err)
				}
			}
			_, err := amqp.Dial(amqpURL(n))
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("an AMQP connection: %v, want that the node does not listen", err)
			}
			if st, err := brokerv1.NewAdminClient(conn).ClusterStatus(ctx, &brokerv1.ClusterStatusRequest{}); mode == "none" &&
				(err != nil || !strings.Contains(st.GetHindrance(), "majority")) {
				t.Errorf("the cluster's status is %v, %v; want why the node serves nobody", st, err)
			} else if mode == "password" && err != nil && !strings.Contains(err.Error(), "majority") {
				t.Errorf("the cluster's status is refused with %v; want why the node serves nobody", err)
			}
			b.must(b.Start(b.ctx))
			_, err = brokerv1.NewBrokerClient(conn).PublishOne(ctx, message("new"))
			b.must(err)
			if held := b.holds(n, "new"); held != 1 {
				t.Errorf("after all have started the queue has %d messages, want 1", held)
			}
		})
	}
}

// EX-16: AMQP publishers that come back to a node as soon as it listens again lose nothing that
// they publish to queues which were made meanwhile.
func TestBackToANodeThatStarts(t *testing.T) {
	t.Parallel()
	for mode, settings := range logins {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBehind(t, settings)
			n := b.Nodes[0]
			for round := range 3 {
				queue := fmt.Sprint("new-", round)
				b.must(n.Kill())
				b.declare(b.Nodes[1], queue)
				b.must(n.Start())
				confirmed := b.publishAMQP(n, queue)
				if held := b.holds(b.Nodes[1], queue); held != confirmed {
					t.Errorf("round %d: %d confirmed, the queue has %d", round, confirmed, held)
				}
			}
		})
	}
}

// publishAMQP connects as soon as a node lets it, publishes, and returns how many were
// confirmed.
func (b *behind) publishAMQP(n *Node, queue string) (confirmed uint64) {
	b.Helper()
	var conn *amqp.Connection
	b.poll("connecting", func() (err error) {
		conn, err = amqp.Dial(amqpURL(n))
		if errors.Is(err, amqp.ErrCredentials) || errors.Is(err, amqp.ErrSASL) {
			b.Errorf("the node calls the password wrong: %v", err)
		}
		return err
	})
	defer func() { b.must(conn.Close()) }()
	ch, err := conn.Channel()
	b.must(err)
	b.must(ch.Confirm(false))
	for range 10 {
		d, err := ch.PublishWithDeferredConfirmWithContext(b.ctx, "", queue, false, false, amqp.Publishing{Body: []byte("x")})
		b.must(err)
		if acked, err := d.WaitContext(b.ctx); err == nil && acked {
			confirmed++
		}
	}
	return confirmed
}

// EX-16: a node that was paused does not answer from its earlier view that something does not exist. What it is sent
// while it stands still waits for it, and is answered before it learns of any change.
func TestPausedNode(t *testing.T) {
	t.Parallel()
	b := newBehind(t, "  mode: none\ntimeouts:\n  catalog_staleness: 1s\n")
	n := b.Nodes[0]
	conn, ctx := b.raw(n)
	for round := range 5 {
		queue := fmt.Sprint("new-", round)
		b.poll("a message without a queue is confirmed", func() error {
			r, err := brokerv1.NewBrokerClient(conn).PublishOne(ctx, message("none"))
			if err == nil && r.GetResult().GetResult() != brokerv1.PublishResult_RESULT_CONFIRMED {
				err = errors.New(r.GetResult().String())
			}
			return err
		})
		stream, err := brokerv1.NewBrokerClient(conn).Publish(ctx)
		b.must(err)
		b.must(stream.Send(&brokerv1.PublishRequest{Sequence: 1, Message: message("none").GetMessage()}))
		_, err = stream.Recv() // so that the stream is open
		b.must(err)
		b.must(n.Pause())
		b.declare(b.Nodes[1], queue)
		const messages = 50
		for i := range messages {
			b.must(stream.Send(&brokerv1.PublishRequest{Sequence: uint64(i) + 2, Message: message(queue).GetMessage()}))
		}
		time.Sleep(1500 * time.Millisecond) // the view ages
		b.must(n.Resume())
		confirmed := uint64(0)
		for range messages {
			r, err := stream.Recv()
			if err != nil {
				break // the outcome of the rest is not known
			}
			if r.GetResult().GetResult() == brokerv1.PublishResult_RESULT_CONFIRMED {
				confirmed++
			}
		}
		b.must(n.WaitReady(b.ctx))
		if held := b.holds(b.Nodes[1], queue); held < confirmed {
			t.Errorf("round %d: %d confirmed, the queue has %d", round, confirmed, held)
		}
	}
}

// A Go publisher that knows one address continues when its node has restarted, however long that is behind (EX-16).
func TestPublisherOfOneNode(t *testing.T) {
	t.Parallel()
	b := newBehind(t, logins["password"])
	n := b.Nodes[0]
	b.declare(n, "q")
	c, err := client.New(client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
	b.must(err)
	defer c.Close()
	p, err := c.Publisher(client.PublisherConfig{})
	b.must(err)
	publish := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(b.ctx, limit)
		defer cancel()
		_, err := p.Publish(ctx, client.Message{RoutingKey: "q", Body: []byte("x")})
		return err
	}
	b.must(publish(time.Minute))
	b.must(n.Kill())
	for _, other := range b.Nodes[1:] {
		b.must(other.Pause()) // so that the node stays behind
	}
	b.must(n.Start())
	if err := publish(3 * time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a publish while the node is behind: %v, want that it waits", err)
	}
	for _, other := range b.Nodes[1:] {
		b.must(other.Resume())
	}
	b.must(publish(time.Minute))
}

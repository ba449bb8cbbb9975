package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// quotaCluster is a cluster in which quotas can be set, with users that may do everything in "/" and in
// the vhosts.
func quotaCluster(t *testing.T, users, vhosts []string) (*testcluster.Cluster, *client.Client) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	return c, withQuotas(t, c, users, vhosts)
}

// withQuotas makes the users and vhosts, and waits until quotas can be set.
func withQuotas(t *testing.T, c *testcluster.Cluster, users, vhosts []string) *client.Client {
	t.Helper()
	cl, ctx := openClient(t, c), testContext(t)
	for _, h := range vhosts {
		if _, err := cl.PutVHost(ctx, client.VHost{Name: h}); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range users {
		if _, err := cl.PutUser(ctx, client.User{Name: u, Password: "secret"}); err != nil {
			t.Fatal(err)
		}
		for _, h := range append([]string{"/"}, vhosts...) {
			if _, err := cl.SetPermission(ctx, client.Permission{VHost: h, User: u, Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	many := int64(1_000_000)
	testcluster.Poll(t, "the version with quotas is finalised", func() error {
		return cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "/", Limits: client.VHostLimits{MaxChannels: &many}})
	})
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "/", Limits: client.VHostLimits{}}); err != nil {
		t.Fatal(err)
	}
	return cl
}

// publisher publishes as fast as it may until its context ends, and counts confirms.
type publisher struct {
	confirmed atomic.Int64
	stop      context.CancelFunc
	over      sync.WaitGroup
}

func (p *publisher) end() int64 {
	p.stop()
	p.over.Wait()
	return p.confirmed.Load()
}

const (
	// rate is the limit of these tests in messages a second, which every machine can do, and much more.
	rate = 100
	// rateWindow is over what time rates are measured.
	rateWindow = 3 * time.Second
)

// keepsRate waits until the messages confirmed over a while are at least and at most such parts of what the rate lets
// through. The nodes learn from each other what they want, and what a busy machine holds up comes at once later: not
// each while is like the others.
func keepsRate(t *testing.T, what string, least, most float64, confirmed func() int64) {
	t.Helper()
	testcluster.Poll(t, what+": the rate is kept", func() error {
		before, began := confirmed(), time.Now()
		<-time.After(rateWindow)
		n, at := float64(confirmed()-before), rate*time.Since(began).Seconds()
		t.Logf("%s: %.0f confirmed, at the rate %.0f", what, n, at)
		if n < least*at || n > most*at {
			return fmt.Errorf("%.0f were confirmed while the rate lets %.0f through", n, at)
		}
		return nil
	})
}

// overGRPC publishes on a stream of one node.
func overGRPC(t *testing.T, addr, user, queue string) *publisher {
	t.Helper()
	peer, _ := asUser(t, addr, user)
	p := &publisher{}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	stream, err := peer.Publish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end() })
	p.over.Go(func() {
		for n := uint64(1); ; n++ {
			if stream.Send(&brokerv1.PublishRequest{Sequence: n, Message: &brokerv1.Message{RoutingKey: queue, Body: make([]byte, 100)}}) != nil {
				return
			}
		}
	})
	p.over.Go(func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			if r.GetResult().GetResult() != brokerv1.PublishResult_RESULT_CONFIRMED {
				t.Errorf("a publish of %s: %v", user, r)
				return
			}
			p.confirmed.Add(1)
		}
	})
	return p
}

// overAMQP publishes on a connection to one node.
func overAMQP(t *testing.T, addr, user, queue string) *publisher {
	t.Helper()
	conn, err := amqp091.DialConfig("amqp://"+user+":secret@"+addr, amqp091.Config{Vhost: "/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	p := &publisher{}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = func() { stop(); _ = conn.CloseDeadline(time.Now()) }
	t.Cleanup(func() { p.end() })
	acks := ch.NotifyPublish(make(chan amqp091.Confirmation, 1000))
	window := make(chan struct{}, 1000)
	p.over.Go(func() {
		for ctx.Err() == nil {
			select {
			case window <- struct{}{}:
			case <-ctx.Done():
				return
			}
			if ch.PublishWithContext(ctx, "", queue, false, false, amqp091.Publishing{Body: make([]byte, 100)}) != nil {
				return
			}
		}
	})
	p.over.Go(func() {
		for a := range acks {
			if a.Ack {
				p.confirmed.Add(1)
			}
			<-window
		}
	})
	return p
}

// VH-14: a user's rate holds on one node and over all of them, on both protocols, while others are not
// held back; it holds on a node that has restarted.
func TestQuotaOfRate(t *testing.T) {
	c, cl := quotaCluster(t, []string{"noisy", "neighbour"}, nil)
	ctx := testContext(t)
	for _, q := range []string{"noise", "other"} {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: q}); err != nil {
			t.Fatal(err)
		}
	}
	limit := int64(rate)
	if err := cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "noisy", Limits: client.UserLimits{MaxMessageRate: &limit}}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		how   string
		nodes []int
	}{{"one node", []int{0}}, {"one node over AMQP", []int{1}}, {"three nodes", []int{0, 1, 2}}} {
		t.Run(x.how, func(t *testing.T) {
			var noisy []*publisher
			began := time.Now()
			other := overGRPC(t, c.Addrs()[x.nodes[0]], "neighbour", "other")
			for _, n := range x.nodes {
				if n == 1 {
					noisy = append(noisy, overAMQP(t, c.AMQP(n), "noisy", "noise"))
				} else {
					noisy = append(noisy, overGRPC(t, c.Addrs()[n], "noisy", "noise"))
				}
			}
			confirmed := func() (n int64) {
				for _, p := range noisy {
					n += p.confirmed.Load()
				}
				return n
			}
			keepsRate(t, x.how, 0.6, 1.1, confirmed)
			keepsRate(t, "the neighbour", 2, math.Inf(1), other.confirmed.Load)
			sum, took := confirmed(), time.Since(began).Seconds()
			for _, p := range append(noisy, other) {
				p.end()
			}
			if most := rate*1.1*took + rate; len(noisy) == 1 && float64(sum) > most { // from the first one on
				t.Errorf("%d confirmed in %.2f s at %d a second", sum, took, rate)
			}
		})
	}
	counts, _ := c.Broker(0).Limits.Counts()
	if got := counts[0]; got.Scope != "user" || got.Quota != "max-message-rate" || got.Reached == 0 || got.Held == 0 {
		t.Errorf("figures %+v", got)
	}

	t.Run("after a restart", func(t *testing.T) {
		c.Kill(2)
		c.Restart(2)
		c.AwaitReady(2)
		began := time.Now()
		p := overGRPC(t, c.Addrs()[2], "noisy", "noise")
		keepsRate(t, "after a restart", 0.1, 1.1, p.confirmed.Load)
		n, took := p.end(), time.Since(began).Seconds()
		if float64(n) > rate*1.1*took+rate {
			t.Errorf("%d confirmed in %.2f s", n, took)
		}
	})
}

// VH-14: a limit that is lowered or taken away counts for those who wait already.
func TestQuotaChanges(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, nil)
	ctx := testContext(t)
	five, none := int64(5), int64(0)
	rated := client.Table{"x-max-message-rate": 5}
	for _, q := range []client.Queue{{Name: "q"}, {Name: "slow", Arguments: rated}} {
		if _, err := cl.DeclareQueue(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	over := map[string]*publisher{"gRPC": overGRPC(t, c.Addrs()[0], "u", "q"), "AMQP": overAMQP(t, c.AMQP(1), "u", "q")}
	moves := func(p *publisher) func() error {
		before := p.confirmed.Load()
		return func() error {
			if now := p.confirmed.Load(); now < before+200 {
				return fmt.Errorf("%d were confirmed before, %d now", before, now)
			}
			return nil
		}
	}
	stands := func(p *publisher) func() error {
		return func() error {
			before := p.confirmed.Load()
			<-time.After(500 * time.Millisecond)
			if n := p.confirmed.Load() - before; n > 10 {
				return fmt.Errorf("%d more in half a second", n)
			}
			return nil
		}
	}
	for how, p := range over {
		testcluster.Poll(t, "no limit over "+how, moves(p))
	}
	for _, l := range []*int64{&five, &none, nil} {
		if err := cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "u", Limits: client.UserLimits{MaxMessageRate: l}}); err != nil {
			t.Fatal(err)
		}
		for how, p := range over {
			if l == nil {
				testcluster.Poll(t, "no limit any more over "+how, moves(p))
				continue
			}
			testcluster.Poll(t, fmt.Sprint("at ", *l, " a second over ", how), stands(p))
		}
	}
	for _, p := range over {
		p.end()
	}

	slow := overGRPC(t, c.Addrs()[2], "u", "slow")
	testcluster.Poll(t, "a queue's own rate", stands(slow))
	if n := slow.end(); n == 0 {
		t.Error("nothing was published into a queue with a rate")
	}
}

// VH-16: publishers wait while a vhost holds too much, and go on once it holds less; what dies goes to its
// dead-letter queue meanwhile.
func TestQuotaOfStoredBytes(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, []string{"full"})
	ctx := testContext(t)
	for _, q := range []client.Queue{
		{VHost: "full", Name: "dead"},
		{VHost: "/", Name: "elsewhere"},
		{VHost: "full", Name: "q", Arguments: client.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}},
	} {
		if _, err := cl.DeclareQueue(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	limit := int64(100_000)
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "full", Limits: client.VHostLimits{MaxStoredBytes: &limit}}); err != nil {
		t.Fatal(err)
	}
	u, _ := asUser(t, c.Addrs()[0], "u")
	publish := func(vhost, queue string) error {
		within, stop := context.WithTimeout(ctx, 2*time.Second)
		defer stop()
		_, err := u.PublishOne(within, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{Vhost: vhost, RoutingKey: queue, Body: make([]byte, 10_000)}})
		return err
	}
	var err error
	testcluster.Poll(t, "the vhost is full", func() error {
		if err = publish("full", "q"); status.Code(err) != codes.ResourceExhausted { // one may be too slow, too
			return fmt.Errorf("a publish: %w", err)
		}
		return nil
	})
	refused(t, err, codes.ResourceExhausted, "RESOURCE_EXHAUSTED", `vhost "full": max-stored-bytes = 100000`)
	testcluster.Poll(t, "it is shown", func() error {
		all, err := client.Collect(cl.LimitsOfVHost(ctx, "full"))
		if err != nil || *all[len(all)-1].Used < float64(limit) || all[0].Limit != nil {
			return fmt.Errorf("%v, %w", all, err)
		}
		return nil
	})
	testcluster.Poll(t, "another vhost takes messages", func() error { return publish("/", "elsewhere") })

	conn, err := amqp091.DialConfig("amqp://u:secret@"+c.AMQP(1), amqp091.Config{Vhost: "full"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	blocked := conn.NotifyBlocked(make(chan amqp091.Blocking, 100))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	notice := func(active bool) string {
		for {
			select {
			case b := <-blocked:
				if b.Active == active {
					return b.Reason
				}
			case <-time.After(100 * time.Millisecond):
				if active { // the node learns with the first publishes
					if err := ch.PublishWithContext(ctx, "", "q", false, false, amqp091.Publishing{Body: make([]byte, 10)}); err != nil {
						t.Fatal(err)
					}
				}
			case <-ctx.Done():
				t.Fatal("connection.blocked did not come")
			}
		}
	}
	if reason := notice(true); !strings.Contains(reason, "max-stored-bytes") {
		t.Errorf("blocked for %q", reason)
	}

	seen := errors.New("the event was seen")
	err = cl.WatchEvents(ctx, client.WatchEventsRequest{Kinds: []string{"quota_reached"}, History: true}, func(events []client.Event) error {
		for _, e := range events {
			if e.VHost == "full" && e.Cause == "max-stored-bytes" && e.Detail == "vhost" {
				return seen
			}
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Errorf("watching for the event: %v", err)
	}

	// What dies is forwarded.
	taken, err := cl.Get(ctx, client.GetRequest{VHost: "full", Queue: "q"})
	if err != nil || taken == nil {
		t.Fatal(taken, err)
	}
	if err := cl.Settle(ctx, client.SettleRequest{Token: taken.Token, Decision: client.Decision{Kind: client.Discard}}); err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the dead letter has arrived", func() error {
		m, err := cl.Get(ctx, client.GetRequest{VHost: "full", Queue: "dead", AutoAck: true})
		if err == nil && m == nil {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	if _, err := cl.PurgeQueue(ctx, client.QueueRef{VHost: "full", Name: "q"}); err != nil {
		t.Fatal(err)
	}
	notice(false)
	testcluster.Poll(t, "there is room again", func() error { return publish("full", "q") })
}

// VH-4: consumers of a user, of a vhost and of a queue, and channels of a vhost, are bounded over all nodes.
func TestQuotaOfConsumers(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, []string{"v"})
	ctx := testContext(t)
	one, two := int64(1), int64(2)
	for _, q := range []client.Queue{{VHost: "v", Name: "a", Arguments: client.Table{"x-max-consumers": 1}}, {VHost: "v", Name: "b"}, {Name: "c"}} {
		if _, err := cl.DeclareQueue(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	consume := func(node int, vhost, queue string) (end func(), err error) {
		p, _ := asUser(t, c.Addrs()[node], "u")
		life, cancel := context.WithCancel(ctx)
		s, err := p.Consume(life)
		if err == nil {
			err = s.Send(open(&brokerv1.ConsumeOpen{Vhost: vhost, Queue: queue}))
		}
		if err == nil {
			_, err = s.Recv()
		}
		if err != nil {
			cancel()
		}
		return cancel, err
	}
	first, err := consume(0, "v", "a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = consume(1, "v", "a")
	refused(t, err, codes.PermissionDenied, "NOT_ALLOWED", `queue "a" in vhost "v": max-consumers = 1`)
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "v", Limits: client.VHostLimits{MaxConsumers: &two}}); err != nil {
		t.Fatal(err)
	}
	if err := cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "u", Limits: client.UserLimits{MaxConsumers: &two}}); err != nil {
		t.Fatal(err)
	}
	if _, err := consume(1, "v", "b"); err != nil {
		t.Fatal(err)
	}
	_, err = consume(2, "v", "b")
	refused(t, err, codes.PermissionDenied, "NOT_ALLOWED", `vhost "v": max-consumers = 2`)
	_, err = consume(2, "/", "c")
	refused(t, err, codes.PermissionDenied, "NOT_ALLOWED", `user "u": max-consumers = 2`)
	wantUsed(t, cl.LimitsOfVHost, "v", map[string]float64{"max-consumers": 2, "max-channels": 2, "max-queues": 2})
	wantUsed(t, cl.LimitsOfUser, "u", map[string]float64{"max-consumers": 2})
	first()
	testcluster.Poll(t, "one in its place", func() error {
		_, err := consume(2, "/", "c")
		return err
	})
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "v", Limits: client.VHostLimits{MaxChannels: &one}}); err != nil {
		t.Fatal(err)
	}
	if err := cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "u", Limits: client.UserLimits{}}); err != nil {
		t.Fatal(err)
	}
	_, err = consume(2, "v", "a")
	refused(t, err, codes.PermissionDenied, "NOT_ALLOWED", `vhost "v": max-channels = 1`)
}

// VH-4: a consumer that was cancelled with messages in its client's hands, and continues under its tag (CO-3), counts
// again; and somebody without any right in a vhost takes none of its channels.
func TestQuotaOfConsumersThatGoOn(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, []string{"v"})
	ctx := testContext(t)
	if _, err := cl.DeclareQueue(ctx, client.Queue{VHost: "v", Name: "a", Arguments: client.Table{"x-max-consumers": 1}}); err != nil {
		t.Fatal(err)
	}
	conn, err := amqp091.DialConfig("amqp://u:secret@"+c.AMQP(0), amqp091.Config{Vhost: "v"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.PublishWithContext(ctx, "", "a", false, false, amqp091.Publishing{Body: []byte("held")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		in, err := ch.Consume("a", "tag", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		second, err := amqp091.DialConfig("amqp://u:secret@"+c.AMQP(1), amqp091.Config{Vhost: "v"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = second.Close() }() // ended by the refusal
		other, err := second.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = other.Consume("a", "other", false, false, false, false, nil); err == nil || !strings.Contains(err.Error(), "max-consumers") {
			t.Fatalf("a second consumer: %v", err)
		}
		select { // the first time it is delivered, and then still held
		case <-in:
		case <-time.After(100 * time.Millisecond):
		}
		if err := ch.Cancel("tag", false); err != nil {
			t.Fatal(err)
		}
	}

	one := int64(1)
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "v", Limits: client.VHostLimits{MaxChannels: &one}}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.PutUser(ctx, client.User{Name: "nobody", Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	n, _ := asUser(t, c.Addrs()[1], "nobody")
	stream, err := n.Publish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&brokerv1.PublishRequest{Sequence: 1, Message: &brokerv1.Message{Vhost: "v", RoutingKey: "a"}}); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil || r.GetResult().GetResult() != brokerv1.PublishResult_RESULT_INVALID {
		t.Fatalf("answered %v, %v", r, err)
	}
	wantUsed(t, cl.LimitsOfVHost, "v", map[string]float64{"max-channels": 0})
}

// wantUsed waits until so much is shown to be used of limits.
func wantUsed(t *testing.T, list func(context.Context, string) iter.Seq2[client.Limit, error], name string, want map[string]float64) {
	t.Helper()
	testcluster.Poll(t, name+": what is shown to be used", func() error {
		all, err := client.Collect(list(testContext(t), name))
		if err != nil {
			return err
		}
		left := maps.Clone(want)
		for _, l := range all {
			if n, ok := left[l.Name]; ok && l.Used != nil && *l.Used == n {
				delete(left, l.Name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%v, want %v", all, left)
		}
		return nil
	})
}

package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// awaitDeclarers waits until the limits of users' queues can be set.
func awaitDeclarers(t *testing.T, cl *client.Client, user string, l client.UserLimits) {
	t.Helper()
	testcluster.Poll(t, "the version with declarers is finalised", func() error {
		return cl.SetUserLimits(testContext(t), client.SetUserLimitsRequest{Name: user, Limits: l})
	})
}

// dialAMQP connects to a node.
func dialAMQP(t *testing.T, addr, user string, cfg amqp091.Config) *amqp091.Connection {
	t.Helper()
	conn, err := amqp091.DialConfig("amqp://"+user+":secret@"+addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseDeadline(time.Now()) })
	return conn
}

// declareAtOnce has a user declare queues at all nodes at the same time, over both protocols, and returns how many were
// made. Those that are refused must be so for the user's limit.
func declareAtOnce(t *testing.T, c *testcluster.Cluster, user string, each int) (made int) {
	t.Helper()
	ctx := testContext(t)
	var running sync.WaitGroup
	var mu sync.Mutex
	begin := make(chan struct{})
	count := func(err error, refusal bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			made++
		case !refusal:
			t.Errorf("declare: %v", err)
		}
	}
	for node := range 3 {
		p, _ := asUser(t, c.Addrs()[node], user)
		conn := dialAMQP(t, c.AMQP(node), user, amqp091.Config{Vhost: "/"})
		for i := range each {
			running.Go(func() {
				<-begin
				_, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: fmt.Sprintf("g-%d-%d", node, i)})
				count(err, err != nil && strings.Contains(err.Error(), `user "`+user+`": max-queues = `))
			})
			running.Go(func() {
				<-begin
				ch, err := conn.Channel()
				if err != nil {
					t.Error(err)
					return
				}
				_, err = ch.QueueDeclare("", false, true, i%2 == 0, false, nil)
				closed := &amqp091.Error{}
				count(err, errors.As(err, &closed) && closed.Code == amqp091.PreconditionFailed && strings.Contains(closed.Reason, "max-queues = "))
			})
		}
	}
	close(begin)
	running.Wait()
	return made
}

// VH-17: a user's max-queues holds however many nodes are asked at once, over AMQP and gRPC; what ends makes room.
func TestQueuesOfUser(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u", "other"}, nil)
	ctx := testContext(t)
	most := int64(7)
	awaitDeclarers(t, cl, "u", client.UserLimits{MaxQueues: &most})
	if made := declareAtOnce(t, c, "u", 5); made != int(most) {
		t.Errorf("%d queues were made, the limit is %d", made, most)
	}
	wantUsed(t, cl.LimitsOfUser, "u", map[string]float64{"max-queues": float64(most)})
	u, _ := asUser(t, c.Addrs()[1], "u")
	declare := func(name string) error {
		_, err := u.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: name})
		return err
	}
	refused(t, declare("one more"), codes.FailedPrecondition, "PRECONDITION_FAILED",
		`user "u": max-queues = 7: the user has declared 7 queues, so queue "one more" in vhost "/" cannot be made`)
	other, _ := asUser(t, c.Addrs()[2], "other")
	if _, err := other.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: "others"}); err != nil {
		t.Errorf("another user: %v", err)
	}
	if err := declare("others"); err != nil {
		t.Errorf("one that exists: %v", err)
	}
	if q, err := cl.GetQueue(ctx, client.QueueRef{Name: "others"}); err != nil || q.DeclaredBy != "other" || !q.CountsForDeclarer {
		t.Errorf("the queue of another user: %+v, %v", q, err)
	}

	// A queue for answers counts as well.
	one := int64(1)
	awaitDeclarers(t, cl, "other", client.UserLimits{MaxQueues: &one})
	ch, err := dialAMQP(t, c.AMQP(0), "other", amqp091.Config{Vhost: "/"}).Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil); err == nil || !strings.Contains(err.Error(), "max-queues = 1") {
		t.Errorf("a queue for answers: %v", err)
	}

	// The user that is made again under the name begins with none.
	if _, err := cl.DeleteUser(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.PutUser(ctx, client.User{Name: "other", Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, cl.LimitsOfUser, "other", map[string]float64{"max-queues": 0})
	if q, err := cl.GetQueue(ctx, client.QueueRef{Name: "others"}); err != nil || q.DeclaredBy != "other" || q.CountsForDeclarer {
		t.Errorf("the queue of a user that was made again: %+v, %v", q, err)
	}
}

// VH-17: queues that end with their connection make room.
func TestQueuesOfUserEnd(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, nil)
	two := int64(2)
	awaitDeclarers(t, cl, "u", client.UserLimits{MaxQueues: &two})
	for node := range 3 {
		conn := dialAMQP(t, c.AMQP(node), "u", amqp091.Config{Vhost: "/"})
		testcluster.Poll(t, "there is room for the queues of a connection", func() error {
			ch, err := conn.Channel()
			for i := 0; err == nil && i < 2; i++ {
				_, err = ch.QueueDeclare(fmt.Sprintf("%d-%d", node, i), false, true, true, false, nil)
			}
			return err
		})
		_ = conn.Close()
	}
	testcluster.Poll(t, "none is left", func() error {
		all, err := client.Collect(cl.LimitsOfUser(testContext(t), "u"))
		for _, l := range all {
			if l.Name == "max-queues" && (l.Used == nil || *l.Used != 0) {
				err = errors.Join(err, fmt.Errorf("%v are left", l.Used))
			}
		}
		return err
	})
}

// VH-17: while the queues that a user has declared hold too much, the user waits, and so does whoever publishes into one
// of them, on any node; others continue, and a purge ends it.
func TestStoredBytesOfUser(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u", "other"}, nil)
	ctx := testContext(t)
	limit := int64(100_000)
	awaitDeclarers(t, cl, "u", client.UserLimits{MaxStoredBytes: &limit})
	u, _ := asUser(t, c.Addrs()[0], "u")
	other, _ := asUser(t, c.Addrs()[1], "other")
	for name, p := range map[string]peer{"mine": u, "mine too": u, "others": other} {
		if _, err := p.admin.DeclareQueue(ctx, &brokerv1.DeclareQueueRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(p peer, queue string, bytes int) error {
		within, stop := context.WithTimeout(ctx, 2*time.Second)
		defer stop()
		_, err := p.PublishOne(within, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: queue, Body: make([]byte, bytes)}})
		return err
	}
	var err error
	testcluster.Poll(t, "the user's queues are full", func() error {
		if err = errors.Join(publish(u, "mine", 5_000), publish(u, "mine too", 5_000)); err == nil {
			return errors.New("they take another message")
		}
		return nil
	})
	// A node that is busy may miss the moment, shortly before its caller's deadline, at which it says why.
	answer := func(p peer) (err error) {
		testcluster.Poll(t, "an answer in time", func() error {
			if err = publish(p, "mine", 10); status.Code(err) == codes.DeadlineExceeded {
				return err
			}
			return nil
		})
		return err
	}
	for who, p := range map[string]peer{"the user": u, "another user": other} {
		testcluster.Poll(t, who+" is held back from them", func() error {
			if err = answer(p); err == nil {
				return errors.New("they take another message")
			}
			return nil
		})
		refused(t, err, codes.ResourceExhausted, "RESOURCE_EXHAUSTED", `user "u": max-stored-bytes = 100000`)
	}
	testcluster.Poll(t, "others take messages", func() error { return publish(other, "others", 10) })
	testcluster.Poll(t, "it is shown", func() error {
		all, err := client.Collect(cl.LimitsOfUser(ctx, "u"))
		if err != nil || all[len(all)-1].Name != "max-stored-bytes" || *all[len(all)-1].Used < float64(limit) {
			return fmt.Errorf("%v, %w", all, err)
		}
		return nil
	})
	blockedAtOnce(t, cl, c.AMQP(1))
	wantReached(t, cl, "u", "max-stored-bytes", "user")
	blockedThenNot(t, c.AMQP(2), func() {
		for _, q := range []string{"mine", "mine too"} {
			if _, err := cl.PurgeQueue(ctx, client.QueueRef{Name: q}); err != nil {
				t.Fatal(err)
			}
		}
	})
	testcluster.Poll(t, "there is room again", func() error { return publish(other, "mine", 10) })
}

// wantReached waits for the event that a quota is reached.
func wantReached(t *testing.T, cl *client.Client, name, limit, scope string) {
	t.Helper()
	seen := errors.New("the event was seen")
	err := cl.WatchEvents(testContext(t), client.WatchEventsRequest{Kinds: []string{"quota_reached"}, History: true}, func(events []client.Event) error {
		for _, e := range events {
			if e.Name == name && e.Cause == limit && e.Detail == scope {
				return seen
			}
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Errorf("watching for the event: %v", err)
	}
}

// blockedAtOnce has user "other" publish into the full queue "mine" by a new connection, whose first message must wait.
func blockedAtOnce(t *testing.T, cl *client.Client, addr string) {
	t.Helper()
	ctx := testContext(t)
	before, err := cl.GetQueue(ctx, client.QueueRef{Name: "mine"})
	if err != nil || before.Stats == nil {
		t.Fatal(before, err)
	}
	conn := dialAMQP(t, addr, "other", amqp091.Config{Vhost: "/"})
	notices := conn.NotifyBlocked(make(chan amqp091.Blocking, 1))
	if err := channelOf(t, conn).PublishWithContext(ctx, "", "mine", false, false, amqp091.Publishing{Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	select {
	case b := <-notices:
		if !b.Active || !strings.Contains(b.Reason, `user "u": max-stored-bytes`) {
			t.Errorf("blocked: %+v", b)
		}
	case <-time.After(time.Minute):
		t.Error("connection.blocked did not come for the first message")
	}
	if now, err := cl.GetQueue(ctx, client.QueueRef{Name: "mine"}); err != nil || now.Stats == nil || now.Stats.Messages != before.Stats.Messages {
		t.Errorf("now %+v, before %+v; %v", now.Stats, before.Stats, err)
	}
}

// blockedThenNot has user "other" publish into the full queue "mine" over AMQP until it gets connection.blocked, and
// then waits for connection.unblocked after what makes room.
func blockedThenNot(t *testing.T, addr string, room func()) {
	t.Helper()
	conn := dialAMQP(t, addr, "other", amqp091.Config{Vhost: "/"})
	notices := conn.NotifyBlocked(make(chan amqp091.Blocking, 100))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	ctx, blocked := testContext(t), false
	for {
		select {
		case b := <-notices:
			if b.Active && !strings.Contains(b.Reason, `user "u": max-stored-bytes`) {
				t.Errorf("blocked for %q", b.Reason)
			}
			if !b.Active {
				return
			}
			if !blocked {
				blocked = true
				room()
			}
		case <-time.After(100 * time.Millisecond):
			if blocked {
				continue
			}
			if err := ch.PublishWithContext(ctx, "", "mine", false, false, amqp091.Publishing{Body: make([]byte, 10)}); err != nil {
				t.Fatal(err)
			}
		case <-ctx.Done():
			t.Fatal("connection.blocked or unblocked did not come")
		}
	}
}

package stats_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/stats"
)

// published is how many messages each queue of the test gets.
const published = 20

// fill declares queues and publishes to them with confirms.
func fill(t *testing.T, address string, queues ...string) {
	t.Helper()
	conn, err := amqp091.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // its node may be gone by then
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		if _, err := ch.QueueDeclare(q, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		for range published {
			c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", q, false, false, amqp091.Publishing{Body: []byte("12345")})
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := c.WaitContext(t.Context()); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
}

// The collector of one node shows the queues and clients of all nodes, and names those that do not answer.
func TestCollector(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	s := stats.New(stats.Config{Broker: c.Broker(2)})
	t.Cleanup(s.Close)
	fill(t, c.AMQP(0), "a", "b", "c", "d")
	q, err := s.Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if q.Totals.Queues != 4 || q.Totals.Ready != 4*published || len(q.Silent) != 0 {
		t.Errorf("%+v, silent %v", q.Totals, q.Silent)
	}
	if again, err := s.Queues(t.Context()); again != q || err != nil {
		t.Error("the figures are not shared", err)
	}
	enough := errors.New("enough")
	var samples []*stats.Cluster
	err = s.Watch(t.Context(), func(x *stats.Cluster) error {
		if samples = append(samples, x); len(samples) == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || samples[0] == samples[1] || !slices.Equal(s.History(), samples) {
		t.Fatal(err, samples, s.History())
	}
	x, led := samples[1], 0
	for i := range x.Nodes {
		led += x.Nodes[i].Totals.Queues
	}
	if led != 4 || x.Totals != q.Totals || x.Objects.Queues != 4 || x.Objects.Connections != 1 || x.Objects.Channels != 1 || len(x.Silent) != 0 {
		t.Errorf("%+v, queues of nodes %d", x, led)
	}
	c.Kill(1)
	testcluster.Poll(t, "the dead node is named", func() error {
		x, err := s.Cluster(t.Context())
		if err == nil && !slices.Equal(x.Silent, []string{c.Name(1)}) {
			err = fmt.Errorf("silent %v", x.Silent)
		}
		return err
	})
}

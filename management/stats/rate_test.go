package stats

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/broker/queues"
)

// A rate is what was counted over the time that it took, and never negative.
func TestPerSecond(t *testing.T) {
	for _, x := range []struct {
		before, now uint64
		elapsed     time.Duration
		want        float64
	}{
		{100, 150, 5 * time.Second, 10},
		{0, 1, 2 * time.Second, 0.5},
		{7, 7, time.Second, 0},
		{100, 3, time.Second, 0},
		{0, 120, time.Minute, 2}, // nobody else has looked meanwhile
		{0, 9, 0, 0},
		{0, 9, -time.Second, 0},
		{0, 9, RateWithin + 1, 0},
	} {
		if got := perSecond(x.before, x.now, x.elapsed); got != x.want {
			t.Errorf("from %d to %d in %s: %v, want %v", x.before, x.now, x.elapsed, got, x.want)
		}
	}
}

// What a node uses becomes more or less. It is not known of one that has restarted, does not answer, or does not say.
func TestUseOfNodes(t *testing.T) {
	node := func(epoch, n uint64) *Node {
		return &Node{NodeStatus: operators.NodeStatus{
			Epoch: epoch, Answers: true, Vitals: &operators.Vitals{Memory: 100 - n, Files: n}, Disk: &operators.Disk{Free: 3 * n},
		}}
	}
	silent, old := node(1, 30), node(1, 30)
	silent.Answers, old.Vitals = false, nil
	for name, x := range map[string]struct {
		now     *Node
		elapsed time.Duration
		want    Use
	}{
		"changed": {node(1, 30), 2 * time.Second, Use{Memory: -10, Files: 10, DiskFree: 30}}, "restarted": {node(2, 30), 2 * time.Second, Use{}},
		"silent": {silent, 2 * time.Second, Use{}}, "old": {old, 2 * time.Second, Use{DiskFree: 30}}, "late": {node(1, 30), RateWithin + 1, Use{}},
	} {
		if got := useRates(node(1, 10), x.now, x.elapsed); got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
}

// A change of the leader is no spike, nor is a queue that was not there before.
func TestRatesOfQueues(t *testing.T) {
	stats := func(n uint64) *queues.Stats {
		return &queues.Stats{Enqueued: n, Delivered: 2 * n, Ready: n, DeadLettered: map[string]uint64{"a": n, "b": n}}
	}
	at := time.Now()
	before := newQueues(nil, []queues.LedStats{{UID: 1, Leader: "a", Stats: stats(10)}, {UID: 2, Leader: "a", Stats: stats(0)}}, at, nil)
	now := newQueues(before, []queues.LedStats{
		{UID: 1, Leader: "a", Stats: stats(20)}, {UID: 2, Leader: "b", Stats: stats(1000)}, {UID: 3, Leader: "a", Stats: stats(1000)},
	}, at.Add(2*time.Second), nil)
	want := Rates{Publish: 5, Deliver: 10, DeadLetter: 10}
	if now.Of[1].Rates != want || now.Rates != want || before.Rates != (Rates{}) {
		t.Errorf("%+v of %+v, before %+v", now.Rates, now.Of[1].Rates, before.Rates)
	}
	for uid, want := range map[uint64]Growth{1: {Messages: 5, Ready: 5}, 2: {}, 3: {}} {
		if got := now.GrowthOf(uid); *got != want {
			t.Errorf("queue %d becomes longer by %+v, want %+v", uid, *got, want)
		}
	}
	past := now.Of[1].Past
	if past == nil || past.Messages != 10 || past.Publish != 10 || now.Of[1].Present().Messages != 20 || !now.Before.Equal(at) || now.Of[2].Past != nil {
		t.Errorf("%+v before, at %s", past, now.Before)
	}
	if now.GrowthOf(4) != nil || now.RatesOf(4) != nil {
		t.Error("there are figures of a queue that nobody leads")
	}
	if now.Totals.Queues != 3 || now.Totals.Ready != 2020 {
		t.Errorf("%+v", now.Totals)
	}
}

// A vhost has what its queues add up to, and how fast that changes; not while figures of a node are missing.
func TestVHosts(t *testing.T) {
	queue := func(uid uint64, vhost string, n uint64) queues.LedStats {
		return queues.LedStats{UID: uid, VHost: vhost, Leader: "a", Stats: &queues.Stats{
			Ready: n, Unsettled: 1, Delayed: 2, Backlog: 3, Enqueued: 10 * n, Delivered: 5 * n, Gets: 4, EmptyGets: 3, Settled: 2, Redelivered: 1, Consumers: 1,
		}}
	}
	at := time.Now()
	before := newQueues(nil, []queues.LedStats{queue(1, "x", 5), queue(2, "x", 1), queue(3, "y", 8)}, at, nil)
	all := []queues.LedStats{queue(1, "x", 15), queue(2, "x", 1), queue(3, "y", 4)}
	now := newQueues(before, all, at.Add(2*time.Second), nil)
	x, y := now.VHost("x"), now.VHost("y")
	if x.Totals != (Totals{Queues: 2, Ready: 16, Unsettled: 2, Delayed: 4, Backlog: 6, Consumers: 2}) || x.Totals.Messages() != 28 {
		t.Errorf("%+v", x.Totals)
	}
	if want := (Counts{Publish: 160, Deliver: 80, Get: 8, EmptyGets: 6, Ack: 4, Redeliver: 2}); x.Counts != want {
		t.Errorf("%+v, want %+v", x.Counts, want)
	}
	if want := (Rates{Publish: 50, Deliver: 25}); x.Rates != want {
		t.Errorf("%+v, want %+v", x.Rates, want)
	}
	if x.Growth != (Growth{Messages: 5, Ready: 5}) || y.Growth != (Growth{Messages: -2, Ready: -2}) || before.VHost("x").Growth != (Growth{}) {
		t.Errorf("%+v, %+v", x.Growth, y.Growth)
	}
	if none := *now.VHost("none"); none != (VHost{}) {
		t.Errorf("%+v", none)
	}
	if late := newQueues(before, all, at.Add(RateWithin+1), nil); late.VHost("x").Growth != (Growth{}) {
		t.Errorf("%+v", late.VHost("x").Growth)
	}
	partly := newQueues(before, all[:1], at.Add(time.Second), []string{"b"})
	if whole := newQueues(partly, all, at.Add(2*time.Second), nil); partly.VHost("x").Growth != (Growth{}) || whole.VHost("x").Growth != (Growth{}) {
		t.Errorf("%+v, %+v", partly.VHost("x").Growth, whole.VHost("x").Growth)
	}
}

// The busiest queues come first, and those that are equal keep their places.
func TestTop(t *testing.T) {
	all := &Queues{Of: map[uint64]*Queue{}}
	for i, q := range []struct {
		vhost, name                 string
		rate                        float64
		ready, unacked, deadLetters uint64
	}{{"/", "b", 5, 1, 0, 9}, {"/", "a", 5, 3, 0, 0}, {"Shop", "orders", 1, 2, 7, 0}} {
		all.Of[uint64(i)] = &Queue{
			VHost: q.vhost, Name: q.name, Rates: Rates{Publish: q.rate - 1, Deliver: 1},
			Stats: &queues.Stats{Ready: q.ready, Unsettled: q.unacked, Backlog: q.deadLetters},
		}
	}
	for _, x := range []struct {
		by       Order
		filter   string
		limit    int
		want     string
		matching int
	}{
		{ByRate, "", 9, "a b orders", 3},
		{ByReady, "", 2, "a orders", 3},
		{ByUnacked, "", 9, "orders a b", 3},
		{ByDeadLetters, "", 1, "b", 3},
		{ByRate, "shop/ORD", 9, "orders", 1},
		{ByRate, "none", 9, "", 0},
	} {
		top, matching := all.Top(x.by, x.filter, x.limit)
		names := make([]string, len(top))
		for i, q := range top {
			names[i] = q.Name
		}
		if got := strings.Join(names, " "); got != x.want || matching != x.matching {
			t.Errorf("%+v: %s, %d match", x, got, matching)
		}
	}
}

// After a node's restart its rates start over; of a node that does not answer there are none, and it is named.
func TestRatesOfNodes(t *testing.T) {
	status := func(epoch, count uint64, answers bool) *operators.ClusterStatus {
		return &operators.ClusterStatus{Nodes: []operators.NodeStatus{{
			ID: "a", Epoch: epoch, Answers: answers, Counters: map[string]uint64{
				"published": count, "unroutable_returned": 2 * count, "unroutable_dropped": 3 * count, "consumed": 4 * count,
				"consumed_auto_ack": 5 * count, "got": 6 * count, "got_auto_ack": 7 * count,
				"connections_opened": 8 * count, "queues_deleted": 9 * count,
			},
		}}}
	}
	at, none, have := time.Now(), newQueues(nil, nil, time.Time{}, nil), &inventory{}
	before := newCluster(nil, status(1, 10, true), none, have, at)
	for _, x := range []struct {
		epoch, count uint64
		answers      bool
		want         float64
	}{{1, 30, true, 20}, {2, 30, true, 0}, {1, 5, true, 0}, {1, 30, false, 0}} {
		s := newCluster(before, status(x.epoch, x.count, x.answers), none, have, at.Add(time.Second))
		want := Rates{
			Publish: x.want, Returned: 2 * x.want, Dropped: 3 * x.want, Consumed: 4 * x.want, ConsumedAutoAck: 5 * x.want,
			Got: 6 * x.want, GotAutoAck: 7 * x.want,
		}
		if s.Rates != want || (len(s.Silent) == 0) != x.answers {
			t.Errorf("%+v: %+v, silent %v", x, s.Rates, s.Silent)
		}
		if s.Churn["connections_opened"] != 8*x.want || s.Churn["queues_deleted"] != 9*x.want || s.Churn["channels_opened"] != 0 {
			t.Errorf("%+v: %v", x, s.Churn)
		}
	}
}

// However many ask, there is one round; it continues without the caller that began it, and what failed is asked for
// again.
func TestSharedRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds atomic.Int32
		s := shared[int32]{life: t.Context(), fresh: FreshFor, collect: func(context.Context) (int32, error) {
			time.Sleep(time.Second)
			if n := rounds.Add(1); n != 2 {
				return n, nil
			}
			return 0, errors.ErrUnsupported
		}}
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := s.get(first); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 50 {
			all.Go(func() {
				if n, err := s.get(t.Context()); n != 1 || err != nil {
					t.Error(n, err)
				}
			})
		}
		leave()
		all.Wait()
		time.Sleep(FreshFor)
		for _, want := range []int32{0, 3, 3} {
			if n, err := s.get(t.Context()); n != want || (err == nil) != (want > 0) {
				t.Error(n, err)
			}
		}
		s.close()
		if _, err := s.get(t.Context()); !errors.Is(err, errClosed) || rounds.Load() != 3 {
			t.Error(err, rounds.Load())
		}
	})
}

// Who watches gets each sample once, about a second apart, and does not lose its place for rounds that fail.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := 0
		c := &Collector{Config: Config{Logger: slog.New(slog.DiscardHandler)}}
		c.cluster = shared[*Cluster]{life: t.Context(), fresh: SampleEvery, collect: func(context.Context) (*Cluster, error) {
			if rounds++; rounds < 5 && rounds != 2 {
				return nil, errors.ErrUnsupported
			}
			return &Cluster{At: time.Now()}, nil
		}}
		begun, enough := time.Now(), errors.New("enough")
		var after []time.Duration
		err := c.Watch(t.Context(), func(x *Cluster) error {
			if after = append(after, x.At.Sub(begun)); len(after) == 3 {
				return enough
			}
			return nil
		})
		if want := []time.Duration{1 * time.Second, 4 * time.Second, 5 * time.Second}; !errors.Is(err, enough) || !slices.Equal(after, want) {
			t.Error(err, after)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Watch(ctx, func(*Cluster) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		c.cluster.close()
		if err := c.Watch(t.Context(), func(*Cluster) error { return nil }); !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
}

package broker

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// alone returns a broker without a cluster: it serves, and its catalog is empty.
func alone(c Config) *Broker {
	var b *Broker
	x := below{
		server: up{}, catalog: up{}, now: time.Now, clients: clients.New(), policies: new(policy.Matcher),
		view: func() *catalog.View { return b.view() }, // which a test may replace, as it may open
		open: func(q id.QueueUID) (enqueuer, error) { return b.open(q) },
		keep: func(event.AuditList, event.Event) {}, emitQuota: func(event.Event) {},
	}
	b = newBroker(c, x)
	b.view = catalog.New().View
	b.open = func(id.QueueUID) (enqueuer, error) { return nil, traffic.ErrNoSuchQueue }
	return b
}

// up is a node that serves.
type up struct {
	serving.Cluster
	serving.Catalog
}

func (up) Serves() bool { return true }
func (up) Fresh() bool  { return true }

// DEL-6: unacked agrees with a naive model.
func TestUnacked(t *testing.T) {
	for seed := range uint64(15) {
		chance := rand.New(rand.NewPCG(seed, 1))
		var u unacked
		open := map[uint64]bool{}
		last := uint64(0)
		for range 2000 {
			switch chance.IntN(4) {
			case 0:
				n := last + chance.Uint64N(100)
				for id := last + 1; id <= n; id++ {
					open[id] = true
				}
				last = n
				u.deliveredUpTo(n)
			case 1, 2:
				n := chance.Uint64N(last + 3)
				if got := u.decide(n); got != open[n] {
					t.Fatalf("seed %d: deciding %d gives %v, want %v", seed, n, got, open[n])
				}
				delete(open, n)
			case 3:
				if chance.IntN(20) > 0 {
					continue
				}
				n := chance.Uint64N(last + 1)
				was := u.appendOpen(nil, u.first(), n)
				u.decideUpTo(n)
				for _, id := range was {
					if !open[id] || id > n {
						t.Fatalf("seed %d: %d of those up to %d is taken for undecided", seed, id, n)
					}
					delete(open, id)
				}
				for id := range open {
					if id <= n {
						t.Fatalf("seed %d: %d of those up to %d is taken for decided", seed, id, n)
					}
				}
			}
		}
		for n := uint64(0); n <= last+1; n++ {
			if got := u.decide(n); got != open[n] {
				t.Fatalf("seed %d: at the end %d is %v, want %v", seed, n, got, open[n])
			}
		}
	}
}

// DEL-8, DEL-11: which decisions of a client are valid.
func TestDecision(t *testing.T) {
	ann := message.Table{{Name: "x-why", Value: message.String("no")}}
	for _, row := range []struct {
		o      Outcome
		failed bool
		ann    message.Table
		want   string
	}{
		{Ack, false, nil, ""},
		{Requeue, true, ann, ""},
		{Requeue, false, message.Table{{Name: "x-opt-delivery-time", Value: message.Int64(5)}}, ""},
		{Requeue, false, message.Table{{Name: "x-opt-delivery-time", Value: message.Int64(-5)}}, "x-opt-delivery-time = -5: want an integer"},
		{Requeue, false, message.Table{{Name: "x-opt-delivery-time", Value: message.String("soon")}}, "want an integer"},
		{Discard, false, ann, ""},
		{0, false, nil, "outcome: not set"},
		{Ack, true, nil, "an ack carries neither"},
		{Requeue, false, message.Table{{Name: "why"}}, `annotations = why: names must start with "x-"`},
	} {
		_, err := decision(row.o, row.failed, row.ann, Delay{}, failure.Error{Kind: "queue", Name: "q"})
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// DR-4: a return can name when the message comes again: by a time, by a delay, or by an annotation.
func TestDecisionDelay(t *testing.T) {
	annotated := message.Table{{Name: annotationDeliveryTime, Value: message.Int64(7000)}}
	for _, row := range []struct {
		o     Outcome
		delay Delay
		ann   message.Table
		want  quorumq.Delay
		fault string
	}{
		{Requeue, Delay{}, nil, quorumq.Delay{}, ""},
		{Requeue, Delay{AtMs: 5000}, nil, quorumq.Delay{At: 5000}, ""},
		{Requeue, Delay{AfterMs: 5}, annotated, quorumq.Delay{Ms: 5}, ""},
		{Requeue, Delay{}, annotated, quorumq.Delay{At: 7000}, ""},
		{Discard, Delay{}, annotated, quorumq.Delay{}, ""},
		{Discard, Delay{AfterMs: 5}, nil, quorumq.Delay{}, "only a return can be delayed"},
		{Ack, Delay{AfterMs: 5}, nil, quorumq.Delay{}, "an ack carries neither"},
		{Requeue, Delay{AfterMs: 5, AtMs: 5000}, nil, quorumq.Delay{}, "deliver_at = 5000: comes with a delay as well"},
		{Requeue, Delay{AfterMs: -1}, nil, quorumq.Delay{}, "delay = -1: want 0 to 315360000000 milliseconds"},
		{Requeue, Delay{AfterMs: MaxDelayMs + 1}, nil, quorumq.Delay{}, "want 0 to"},
		{Requeue, Delay{AtMs: -1}, nil, quorumq.Delay{}, "deliver_at = -1: want milliseconds"},
	} {
		d, err := decision(row.o, false, row.ann, row.delay, failure.Error{Kind: "queue", Name: "q"})
		if row.fault == "" && err != nil || row.fault != "" && (err == nil || !strings.Contains(err.Error(), row.fault)) {
			t.Errorf("%+v: %v", row, err)
		}
		if err == nil && d.Delay != row.want {
			t.Errorf("%+v: delay %+v", row, d.Delay)
		}
	}
}

// Credit limits the auto-ack deliveries that wait here.
func TestCreditTracker(t *testing.T) {
	auto := newCreditTracker(&Consume{AutoAck: true, Prefetch: 1}, 16<<20)
	if got := auto.limit(10); got != 10+firstAutoAck {
		t.Errorf("auto-ack may have %d", got)
	}
	both := creditTracker{bounded: true, explicit: true, granted: 5, window: 10}
	if got := both.limit(0); got != 5 {
		t.Errorf("auto-ack with credit may have %d", got)
	}
	if few := newCreditTracker(&Consume{Prefetch: firstWindow}, 1); few.bounded {
		t.Error("what the prefetch bounds is bounded twice")
	}
}

// The window grows with what is taken, as long as the buffer has room for messages of that size,
// and shrinks when they become larger.
func TestCreditWindow(t *testing.T) {
	const room = 1 << 20
	credit, taken := newCreditTracker(&Consume{}, room), uint64(0)
	credit.sent = credit.limit(0)
	take := func(n, size int) uint64 {
		batch := make([]traffic.Delivery, n)
		for i := range batch {
			batch[i].Message = make([]byte, size)
		}
		taken += uint64(n)
		credit.saw(batch)
		return credit.raise(taken)
	}
	if got := take(10, 1); got != 0 {
		t.Errorf("a small part used raises to %d", got)
	}
	for _, want := range []uint64{512, 1024, quorumq.MaxOutstanding, quorumq.MaxOutstanding} {
		if got := take(500, 1); got != taken+want {
			t.Errorf("%d taken raises to %d, want %d more", taken, got, want)
		}
	}
	for range 20 {
		take(100, room/4)
	}
	if got := credit.sent; got != taken+4 {
		t.Errorf("%d large ones taken, told %d, want 4 more", taken, got)
	}
	for range 20 {
		take(1, 3*room)
	}
	if got := credit.sent; got != taken+1 {
		t.Errorf("%d taken that have no room, told %d, want 1 more", taken, got)
	}
}

// With auto-ack, nothing that was assigned can be left out. When messages suddenly become larger,
// those that the credit already allowed may come, but no more before they are taken.
func TestAutoAckWindow(t *testing.T) {
	const room = 16 << 20
	credit, taken := newCreditTracker(&Consume{AutoAck: true}, room), uint64(0)
	credit.sent = credit.limit(0)
	body := make([]byte, room)
	take := func(size int) uint64 {
		taken++
		credit.saw([]traffic.Delivery{{Message: body[:size]}})
		return credit.raise(taken)
	}
	waiting := func() uint64 { return credit.sent - taken }
	if waiting() != firstAutoAck {
		t.Errorf("%d may come at first", waiting())
	}
	for most := uint64(0); most < quorumq.MaxOutstanding; most = max(most, waiting()) {
		if take(8 << 10); taken > 10*quorumq.MaxOutstanding || waiting() > quorumq.MaxOutstanding {
			t.Fatalf("%d may come after %d were taken", waiting(), taken)
		}
	}
	for waiting() > 4 {
		if got := take(room); got != 0 {
			t.Fatalf("credit is raised to %d while %d large ones wait", got, waiting())
		}
	}
	for range 20 {
		take(room)
	}
	if waiting() != 1 {
		t.Errorf("%d large ones may come in the end, want 1", waiting())
	}
}

// Deliveries that will never arrive use up no credit, neither that of the window nor the client's own. What arrived
// before them has to be taken first.
func TestSkippedUseNoCredit(t *testing.T) {
	for _, explicit := range []bool{false, true} {
		o := &Consume{AutoAck: true, ExplicitCredit: explicit}
		c := &Consumer{autoAck: true, credit: newCreditTracker(o, 16<<20), woken: func() {}}
		c.credit.granted = firstAutoAck
		c.credit.sent = c.credit.limit(0)
		c.arrived.add([]traffic.Delivery{{Delivery: quorumq.Delivery{MsgID: 1}}}, 0)
		c.skip(firstAutoAck-1, firstAutoAck)
		if got := c.usedLocked(); got != 0 {
			t.Errorf("explicit %v: used up to %d while the first delivery waits", explicit, got)
		}
		c.taken = uint64(c.arrived.take(1, 1)[0].MsgID)
		want := uint64(2 * firstAutoAck)
		if explicit {
			want-- // the client has got one
		}
		if got := c.credit.raise(c.usedLocked()); got != want {
			t.Errorf("explicit %v: credit is raised to %d, want %d", explicit, got, want)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	c := Config{MaxBodyBytes: -1, DeliveryBufferBytes: -1}
	err := c.Validate()
	if n := len(failure.Faults(err)); n != 2 {
		t.Errorf("%d faults: %v", n, err)
	}
	if err := new(Config).Validate(); err != nil {
		t.Error(err)
	}
}

package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Consumer consumes one queue over gRPC, or in a workload over AMQP, and records what it sees. It
// comes back by itself when its node is gone.
type Consumer struct {
	Client   *client.Client
	History  *history.History
	Class    string // of the client; see history.Event
	VHost    string // "": "/"
	Queue    string
	Prefetch uint32
	// Decide chooses the outcome of a delivery; nil: all are acked.
	Decide func(d *history.Event) history.Outcome
	// See, if set, looks at every delivery before it is settled.
	See func(d *history.Event) error

	amqp   *dialer       // it consumes over AMQP
	hold   int           // so many deliveries stay unsettled until more come or none does for a while
	slow   time.Duration // what each delivery takes
	comes  *comings      // it comes and goes
	single bool          // the queue has a single active consumer, and the client learns who is active
	// commits reports that it waits for the commit of each settlement that gives a message back.
	commits bool
}

// comings say how long a consumer stays, about, and stays away; it leaves what it holds unsettled.
type comings struct {
	stay, away time.Duration
	crash      bool // its connection breaks, without a word
	random     *rand.Rand
}

// about returns d, half longer at the most.
func (c *comings) about(d time.Duration) time.Duration {
	return d + time.Duration(c.random.Int64N(int64(d)/2+1))
}

const (
	flushEvery = 500 // settlements between two waits for their commit
	idleFlush  = 100 * time.Millisecond
	// flushTimeout bounds the wait for a commit: without it the messages come again.
	flushTimeout = 10 * time.Second
)

// errGone means that a consumer has lost what it held, and must be opened again.
var errGone = errors.New("workload: the consumer is gone")

// inlet is an open consumer of a queue.
type inlet interface {
	// receive waits for a delivery until ctx ends; errGone if there will be none.
	receive(ctx context.Context) (*received, error)
	// settle settles a delivery; one that the consumer no longer holds is no error.
	settle(d *received, o history.Outcome) (held bool, err error)
	// flush waits until what was settled is committed.
	flush(ctx context.Context) error
	// reopened counts how often the consumer was lost and opened again by itself.
	reopened() uint64
	// active reports whether the consumer was notified that it is the single active one.
	active() bool
	// close ends the consumer: with crash its connection breaks, if it has one of its own.
	close(crash bool)
}

// received is a delivery.
type received struct {
	history.Event // as it is recorded
	body          []byte
	grpc          *client.Delivery
	tag           uint64 // of AMQP
}

// Run consumes until ctx ends.
func (c *Consumer) Run(ctx context.Context) error {
	for first := true; ctx.Err() == nil; first = false {
		asked := c.History.Now()
		in, err := c.open(ctx, first)
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // its end is what the caller wants
			}
			return fmt.Errorf("workload: consumer of %q: %w", c.Queue, err)
		}
		staying, cancel := ctx, context.CancelFunc(func() {})
		if c.comes != nil {
			staying, cancel = context.WithTimeout(ctx, c.comes.about(c.comes.stay))
		}
		life := visit{Consumer: c, in: in, asked: asked, name: c.History.Consumer()}
		err = life.run(ctx, staying)
		cancel()
		if err != nil && !errors.Is(err, errGone) {
			return fmt.Errorf("workload: consumer of %q: %w", c.Queue, err)
		}
		if c.comes != nil {
			_ = wait.For(ctx, c.comes.about(c.comes.away)) // ctx is looked at
		}
	}
	return nil
}

// open opens the consumer. The first time an error of gRPC is final, since the cluster is well.
func (c *Consumer) open(ctx context.Context, first bool) (inlet, error) {
	for begin := time.Now(); ; {
		var in inlet
		var err error
		if c.amqp != nil {
			in, err = c.openAMQP(ctx)
		} else {
			in, err = c.openGRPC(ctx)
		}
		if err == nil || first && c.amqp == nil || time.Since(begin) > patience {
			return in, err
		}
		if wait.For(ctx, redialEvery) != nil {
			return nil, err
		}
	}
}

// openGRPC opens a consumer over gRPC, whose stream the client opens again.
func (c *Consumer) openGRPC(ctx context.Context) (inlet, error) {
	s, err := c.Client.Consume(ctx, client.ConsumeConfig{VHost: c.VHost, Queue: c.Queue, Prefetch: c.Prefetch})
	if err != nil {
		return nil, err
	}
	return &grpcInlet{s}, nil
}

// visit is one life of a consumer, under a name of its own.
type visit struct {
	*Consumer
	in      inlet
	asked   time.Duration // when the client began to ask for it
	name    string
	lives   uint64          // that the name stands for, as inlet.reopened
	held    []*received     // that are not settled yet, in order
	decided []history.Event // committed with the next flush

	mu     sync.Mutex
	active bool // as it was recorded
}

// run consumes until staying ends, or the consumer is gone. What it holds is lost then.
func (v *visit) run(ctx, staying context.Context) error {
	v.History.Add(history.Event{Kind: history.Opened, Queue: v.Queue, Consumer: v.name, Client: v.Class, Sent: v.asked, Prefetch: v.Prefetch})
	watching, stop := context.WithCancel(staying)
	var watcher sync.WaitGroup
	if v.single {
		watcher.Go(func() { v.watch(watching) })
	}
	err := v.consume(ctx, staying)
	stop()
	watcher.Wait()
	v.recordActive(false)
	v.History.Add(history.Event{Kind: history.Lost, Queue: v.Queue, Consumer: v.name})
	v.in.close(ctx.Err() == nil && v.comes != nil && v.comes.crash)
	return err
}

// consume is the loop of run.
func (v *visit) consume(ctx, staying context.Context) error {
	for staying.Err() == nil {
		waiting, cancel := context.WithTimeout(staying, idleFlush)
		d, err := v.in.receive(waiting)
		idle := err != nil && waiting.Err() != nil
		cancel()
		v.renew()
		if v.single { // before the delivery is recorded
			v.recordActive(v.in.active())
		}
		if err != nil && !idle {
			return err
		}
		if err == nil {
			if err := v.take(staying, d); err != nil {
				return err
			}
		}
		for len(v.held) > 0 && (idle && staying.Err() == nil || len(v.held) > v.hold) {
			if err := v.settle(); err != nil {
				return err
			}
		}
		if len(v.decided) >= flushEvery || idle && len(v.decided) > 0 || v.gaveBack() {
			if err := v.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// gaveBack reports whether the last settlement is one whose commit is waited for.
func (v *visit) gaveBack() bool {
	n := len(v.decided)
	return v.commits && n > 0 && (v.decided[n-1].Outcome == history.Requeue || v.decided[n-1].Outcome == history.Return)
}

// renew gives the consumer another name when it was lost and has come back by itself. Of that its prefetch is not
// recorded: what its earlier stream had still sent is recorded under this name.
func (v *visit) renew() {
	n := v.in.reopened()
	if n == v.lives {
		return
	}
	v.recordActive(false)
	v.lives = n
	lost := history.Event{Kind: history.Lost, Queue: v.Queue, Consumer: v.called()}
	v.mu.Lock()
	v.name = v.History.Consumer()
	v.mu.Unlock()
	v.History.Add(lost, history.Event{Kind: history.Opened, Queue: v.Queue, Consumer: v.called(), Client: v.Class, Sent: v.asked})
}

// called returns the consumer's name of now.
func (v *visit) called() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.name
}

// watch records whether the consumer is active also while it waits for something else.
func (v *visit) watch(ctx context.Context) {
	for wait.For(ctx, idleFlush/10) == nil {
		v.recordActive(v.in.active())
	}
}

// recordActive records that the consumer has become the active one, or is not any more.
func (v *visit) recordActive(active bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if active == v.active {
		return
	}
	v.active = active
	kind := history.Inactive
	if active {
		kind = history.Active
	}
	v.History.Add(history.Event{Kind: kind, Queue: v.Queue, Consumer: v.name})
}

// flush waits for the commit of what was settled, and records it. Without a commit the messages
// come again, and are settled again.
func (v *visit) flush(ctx context.Context) error {
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	err := v.in.flush(flushing)
	if err == nil {
		v.History.Add(v.decided...)
	}
	v.decided = v.decided[:0]
	if errors.Is(err, errGone) {
		return err
	}
	return nil
}

// take records a delivery. A body that nobody can have sent is recorded as the message 0/0, which
// nobody publishes.
func (v *visit) take(ctx context.Context, d *received) error {
	m, err := DecodeID(d.body)
	if err != nil {
		d.Note = err.Error()
	}
	d.Kind, d.Client, d.Queue, d.Consumer = history.Delivered, v.Class, v.Queue, v.name
	d.Publisher, d.ID = m.Publisher, m.ID
	v.History.Add(d.Event)
	if v.See != nil {
		if err := v.See(&d.Event); err != nil {
			return err
		}
	}
	if v.slow > 0 {
		_ = wait.For(ctx, v.slow) // ctx is looked at
	}
	v.held = append(v.held, d)
	return nil
}

// settle settles the oldest delivery that is held.
func (v *visit) settle() error {
	d := v.held[0]
	v.held = v.held[1:]
	e := history.Event{Kind: history.Deciding, Publisher: d.Publisher, ID: d.ID, Queue: v.Queue, Consumer: d.Consumer, Outcome: history.Ack}
	if v.Decide != nil {
		e.Outcome = v.Decide(&d.Event)
	}
	v.History.Add(e)
	held, err := v.in.settle(d, e.Outcome)
	if err == nil && held { // else it comes again
		e.Kind = history.Decided
		v.decided = append(v.decided, e)
	}
	return err
}

// grpcInlet is a consumer over gRPC.
type grpcInlet struct{ s *client.Consumer }

// receive takes a cancel by the queue for a loss: the client has opened lost streams by itself.
func (in *grpcInlet) receive(ctx context.Context) (*received, error) {
	d, err := in.s.Receive(ctx)
	if err != nil && ctx.Err() == nil && errors.Is(err, client.ErrCancelled) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	return &received{
		Event: history.Event{Acquired: d.AcquiredCount, Count: d.DeliveryCount, Again: d.Redelivered, Deaths: Deaths(d.Deaths)},
		body:  d.Body, grpc: d,
	}, nil
}

// settle does not wait for the commit. Stale means no longer held.
func (*grpcInlet) settle(d *received, o history.Outcome) (held bool, err error) {
	switch o {
	case history.Discard:
		err = d.grpc.Discard()
	case history.Requeue:
		err = d.grpc.Requeue(true)
	case history.Return:
		err = d.grpc.Requeue(false)
	default:
		err = d.grpc.Ack()
	}
	if errors.Is(err, client.ErrStale) {
		return false, nil
	}
	return true, err
}

func (in *grpcInlet) flush(ctx context.Context) error { return in.s.Flush(ctx) }

func (in *grpcInlet) reopened() uint64 { return in.s.Reopened() }

func (in *grpcInlet) active() bool { return in.s.Activity() == client.Active }

func (in *grpcInlet) close(bool) { in.s.Close() }

// Deaths returns what a history keeps of deaths.
func Deaths(of []client.Death) []history.Death {
	if len(of) == 0 {
		return nil
	}
	out := make([]history.Death, len(of))
	for i, d := range of {
		out[i] = history.Death{Queue: d.Queue, Reason: d.Reason, Count: d.Count}
	}
	return out
}

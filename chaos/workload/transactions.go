package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Transactions is the workload of transactions: over AMQP with tx.commit and tx.rollback, of which each queue has all
// or nothing (PUB-9); and over gRPC those that replace messages by others in one decision, which takes effect exactly
// once (G-22).
func Transactions() Kind {
	return Kind{
		Name: "transactions", Protocols: []string{overGRPC, overAMQP}, Rate: 60,
		Does: "transactions of AMQP, committed and rolled back, and messages that are replaced by others exactly once",
		New:  func(w *World) Workload { return &transactions{base: base{World: w}} },
	}
}

const (
	transactionSize     = 5 // messages that one settles, at most
	transactionPrefetch = 20
	rollBackEvery       = 4 // every so many transactions of AMQP one is rolled back at first
	// gather is how long a transaction waits for more messages.
	gather = 50 * time.Millisecond
)

// inTransactions is why pauses of what transactions publish say nothing of a single fault: a transaction waits for messages
// of one queue, and then for the leaders of all that it writes to.
const inTransactions = "in transactions"

// transactions is the workload of Transactions.
type transactions struct {
	base
	in, out string    // of AMQP's
	joint   string    // whose messages are replaced
	outputs [2]string // by others here
}

// Prepare implements Workload.
func (t *transactions) Prepare(ctx context.Context) error {
	t.joint, t.outputs = t.Queue("joint"), [2]string{t.Queue("left"), t.Queue("right")}
	t.drains = append(t.drains, t.joint, t.outputs[0], t.outputs[1])
	for n, q := range t.outputs {
		t.players.consumer(t.class(n), &Consumer{Queue: q})
	}
	t.players.publisher(t.class(0), &Publisher{Queue: t.joint})
	t.players.publisher(t.class(1), &Publisher{Queue: t.joint})
	for n, c := range []Class{GRPCAll, GRPCOne} {
		t.players.background(func(ctx context.Context) error { return t.replace(ctx, c, n) })
	}
	if t.hasAMQP() {
		t.in, t.out = t.Queue("in"), t.Queue("out")
		t.drains = append(t.drains, t.in, t.out)
		t.players.publisher(GRPCOne, &Publisher{Queue: t.in})
		t.players.publisher(AMQPOne, &Publisher{Queue: t.in})
		t.players.consumer(AMQPAll, &Consumer{Queue: t.out})
		t.players.background(t.copyOver)
	}
	for _, q := range t.drains {
		if err := t.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Ordered: q == t.out}); err != nil {
			return err
		}
	}
	return nil
}

// output is a message that a transaction publishes.
type output struct {
	history.Message
	queue string
}

// begin records a transaction that settles messages and publishes outputs.
func (t *transactions) begin(class Class, number, session int, outputs []output, settles []*received, by string, queue string, o history.Outcome) {
	events := make([]history.Event, 0, len(outputs)+len(settles))
	for _, x := range outputs {
		events = append(events, history.Event{
			Kind: history.Published, Client: class.apart(inTransactions), Publisher: x.Publisher, ID: x.ID, Queues: []string{x.queue}, Transaction: number, Session: session,
		})
	}
	for _, d := range settles {
		events = append(events, history.Event{
			Kind: history.Deciding, Publisher: d.Publisher, ID: d.ID, Queue: queue, Consumer: by, Outcome: o, Transaction: number,
		})
	}
	t.History.Add(events...)
}

// end records the outcome of a transaction; its messages are settled if it was confirmed.
func (t *transactions) end(class Class, number int, as history.Kind, note string, outputs []output, settles []*received, by string, queue string, o history.Outcome) {
	var events []history.Event
	for _, x := range outputs {
		events = append(events, history.Event{Kind: as, Client: class.apart(inTransactions), Publisher: x.Publisher, ID: x.ID, Note: note})
	}
	if as == history.Confirmed {
		for _, d := range settles {
			events = append(events, history.Event{
				Kind: history.Decided, Publisher: d.Publisher, ID: d.ID, Queue: queue, Consumer: by, Outcome: o, Transaction: number,
			})
		}
	}
	t.History.Add(events...)
}

// delivered records a delivery to a consumer of the workload.
func (t *transactions) delivered(d *received, by, queue, class string) error {
	m, err := DecodeID(d.body)
	if err != nil {
		d.Note = err.Error()
	}
	d.Kind, d.Client, d.Queue, d.Consumer, d.Publisher, d.ID = history.Delivered, class, queue, by, m.Publisher, m.ID
	t.History.Add(d.Event)
	return err
}

// replace consumes as the nth client of a class of gRPC, and replaces up to transactionSize messages by one each in both
// queues of outputs.
func (t *transactions) replace(ctx context.Context, class Class, n int) error {
	c, err := t.grpc(ctx, class, n)
	if err != nil {
		return err
	}
	publisher, id := t.History.Publisher(), uint64(0)
	for ctx.Err() == nil {
		s, err := c.Consume(ctx, client.ConsumeConfig{VHost: t.VHost, Queue: t.joint, Prefetch: transactionPrefetch})
		if err != nil {
			if wait.For(ctx, redialEvery) != nil {
				return nil //nolint:nilerr // its end is what the caller wants
			}
			continue
		}
		by := t.History.Consumer()
		t.History.Add(history.Event{Kind: history.Opened, Queue: t.joint, Consumer: by, Client: string(class)})
		for err == nil {
			err = t.replaceSome(ctx, s, class, by, publisher, &id)
		}
		t.History.Add(history.Event{Kind: history.Lost, Queue: t.joint, Consumer: by})
		s.Close()
		if ctx.Err() == nil && !errors.Is(err, errGone) {
			return fmt.Errorf("workload: messages of %q are replaced: %w", t.joint, err)
		}
	}
	return nil
}

// replaceSome makes one transaction.
func (t *transactions) replaceSome(ctx context.Context, s *client.Consumer, class Class, by string, publisher int, id *uint64) error {
	in := &grpcInlet{s}
	settles, err := t.gathered(ctx, in, by, t.joint, class)
	if err != nil || len(settles) == 0 {
		return err
	}
	var outputs []output
	var messages []client.Message
	var deliveries []*client.Delivery
	for _, d := range settles {
		deliveries = append(deliveries, d.grpc)
		for _, q := range t.outputs {
			*id++
			x := output{history.Message{Publisher: publisher, ID: *id}, q}
			outputs = append(outputs, x)
			m := post{key: q}
			messages = append(messages, m.grpc(t.VHost, EncodeID(x.Message, bodyBytes)))
		}
	}
	number := t.History.Transaction()
	t.begin(class, number, 0, outputs, settles, by, t.joint, history.Replace)
	for {
		err = s.SettleAndPublish(ctx, client.Transaction{Deliveries: deliveries, Outputs: messages})
		if err == nil || errors.Is(err, client.ErrStale) || wait.For(ctx, redialEvery) != nil {
			break
		}
	}
	as, note := history.Confirmed, ""
	if err != nil { // an earlier try has done it, or the messages come again
		as, note = history.Unknown, err.Error()
	}
	t.end(class, number, as, note, outputs, settles, by, t.joint, history.Replace)
	return ctx.Err()
}

// gathered returns the messages for a transaction: as many as come soon after the first one; none
// if none comes for a while.
func (t *transactions) gathered(ctx context.Context, in inlet, by, queue string, class Class) ([]*received, error) {
	var out []*received
	for len(out) < transactionSize {
		waiting, cancel := context.WithTimeout(ctx, gather)
		d, err := in.receive(waiting)
		idle := err != nil && waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case idle:
			return out, nil
		case err != nil:
			return nil, err
		case in.reopened() > 0: // what it held is lost: another consumer takes its place
			return nil, errGone
		}
		if err := t.delivered(d, by, queue, string(class)); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

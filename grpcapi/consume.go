package grpcapi

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// maxTasks bounds the settlements of one stream that await their commit.
const maxTasks = 1024

// consumeServer is the server's end of one Consume stream.
type consumeServer = grpc.BidiStreamingServer[brokerv1.ConsumeRequest, brokerv1.ConsumeResponse]

// timeoutArgument is what operators see of a consumer's own timeout: the argument that AMQP has for it (CT-1).
func timeoutArgument(ms *int64) message.Table {
	if ms == nil {
		return nil
	}
	return message.Table{{Name: broker.ArgConsumerTimeout, Value: message.Int64(*ms)}}
}

// Consume delivers messages of one queue.
func (x *brokerServer) Consume(stream consumeServer) error {
	if err := x.s.b.Serving.Admit(); err != nil {
		return err
	}
	closed, err := x.s.b.Connections.OpenChannel(stream.Context())
	if err != nil {
		return err
	}
	defer closed()
	req, err := stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return invalid("stream", "open", "", "the stream ended before its first request, which must open a consumer")
		}
		return err
	}
	open := req.GetOpen()
	if open == nil {
		return invalid("stream", "open", "", "the first request must open a consumer")
	}
	if _, err := x.s.b.Connections.EnterVHost(stream.Context(), vhostOf(open.GetVhost())); err != nil {
		return err
	}
	closedIn, err := x.s.b.Connections.OpenChannelIn(stream.Context(), vhostOf(open.GetVhost()))
	if err != nil {
		return err
	}
	if closedIn != nil {
		defer closedIn()
	}
	tag := open.GetTag()
	if tag == "" {
		tag = "quorate-" + strconv.FormatUint(x.s.tags.Add(1), 10)
	}
	c, err := x.s.b.Consume(stream.Context(), broker.Consume{
		VHost: vhostOf(open.GetVhost()), Queue: open.GetQueue(), Tag: tag, Prefetch: open.GetPrefetch(), AutoAck: open.GetAutoAck(),
		Priority: open.GetPriority(), Exclusive: open.GetExclusive(), ExplicitCredit: open.GetExplicitCredit(),
		HasTimeout: open.ConsumerTimeoutMs != nil, TimeoutMs: open.GetConsumerTimeoutMs(), Arguments: timeoutArgument(open.ConsumerTimeoutMs),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	token, err := c.SettleToken(stream.Context())
	if err != nil {
		return err
	}
	opened := &brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Opened{Opened: &brokerv1.ConsumeOpened{Tag: tag, SettleToken: token}}}
	if err := stream.Send(opened); err != nil {
		return err
	}
	st := &consumeStream{
		s: x.s, stream: stream, c: c,
		notices: make(chan notices), tasks: make(chan task, maxTasks), read: make(chan error, 1),
	}
	return st.run()
}

// consumeStream is one Consume stream. The handler's goroutine writes, a second one reads, and a
// third one waits for commits on the client's request. The reader may outlive the handler by the
// call that it is in.
type consumeStream struct {
	s      *Server
	stream consumeServer
	c      *broker.Consumer

	notices chan notices // for the writer
	tasks   chan task    // what awaits commits, in order
	read    chan error   // why the reader ended

	due []*brokerv1.ConsumeResponse // answers that the writer has taken from notices and not sent yet
}

// notices are the results of tasks.
type notices struct {
	answers []*brokerv1.ConsumeResponse
	failed  error // of a task; it ends the stream
	ended   error // why the consumer has ended without some of the decisions; it ends the stream, too
}

// task is work of the third goroutine.
type task struct {
	settled *brokerv1.Settled // flush, then send this
	cancel  bool              // or cancel the consumer
	requeue bool
	extend  *brokerv1.ExtendAckDeadline // or extend ack deadlines
}

// run starts reader and worker and writes in the handler's goroutine, as gRPC ends the stream when
// that returns. The worker must have ended by then; the reader ends with the stream.
func (x *consumeStream) run() error {
	ctx, stop := context.WithCancel(x.stream.Context())
	defer stop()
	var worker sync.WaitGroup
	worker.Go(func() { x.work(ctx) })
	defer worker.Wait()
	defer stop()
	go func() { x.read <- x.readAll(ctx) }()
	return x.write()
}

// readAll reads settlements and credit until the client ends the stream.
func (x *consumeStream) readAll(ctx context.Context) error {
	for {
		req, err := x.stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var t task
		switch k := req.GetKind().(type) {
		case *brokerv1.ConsumeRequest_Settlement:
			if t.settled, err = x.settle(k.Settlement); err != nil {
				return err
			}
			if t.settled == nil {
				continue
			}
		case *brokerv1.ConsumeRequest_Credit:
			if err := x.c.AddCredit(k.Credit.GetAdd()); err != nil {
				return err
			}
			continue
		case *brokerv1.ConsumeRequest_Cancel:
			t = task{cancel: true, requeue: k.Cancel.GetRequeue()}
		case *brokerv1.ConsumeRequest_ExtendAckDeadline:
			t.extend = k.ExtendAckDeadline
		case *brokerv1.ConsumeRequest_Open:
			return invalid("stream", "open", "", "the stream already has a consumer; open another stream for another consumer")
		default:
			return invalid("stream", "kind", "", "the request is empty; want a settlement, credit or cancel")
		}
		select {
		case x.tasks <- t:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle hands a settlement to the broker. With a request number it returns the answer, which the
// worker sends once the settlement is committed.
func (x *consumeStream) settle(s *brokerv1.Settlement) (*brokerv1.Settled, error) {
	annotations, err := fromNames("annotations", s.GetAnnotations(), failure.Error{Kind: "message"})
	if err != nil {
		return nil, err
	}
	unknown, err := x.c.Settle(&broker.Settlement{
		IDs: s.GetDeliveryIds(), UpTo: s.GetUpTo(), Outcome: outcome(s.GetOutcome()), Failed: s.GetFailed(), Annotations: annotations,
		Delay: broker.Delay{AtMs: s.GetDeliverAtMs(), AfterMs: s.GetDelayMs()},
	})
	if err != nil || s.GetRequest() == 0 {
		return nil, err
	}
	return &brokerv1.Settled{Request: s.GetRequest(), Unknown: unknown}, nil
}

// work waits for commits; one wait covers all settlements gathered so far. Results wait for the
// writer, so a client that settles without reading is not read either once maxTasks are waiting.
func (x *consumeStream) work(ctx context.Context) {
	for {
		var t task
		select {
		case t = <-x.tasks:
		case <-ctx.Done():
			return
		}
		n := x.carryOut(ctx, t)
		select {
		case x.notices <- n:
		case <-ctx.Done():
			return
		}
		if n.failed != nil || n.ended != nil {
			return
		}
	}
}

// carryOut carries out a task and those queued behind it. If some decision was not committed because
// the consumer has ended, no settlement is answered.
func (x *consumeStream) carryOut(ctx context.Context, t task) (n notices) {
	var err error
	for more := true; more && err == nil; {
		switch {
		case t.extend != nil:
			err = x.c.ExtendAckDeadline(ctx, t.extend.GetDeliveryIds(), t.extend.GetMilliseconds())
		case t.cancel:
			if err = x.c.Cancel(ctx, t.requeue); err == nil {
				n.answers = append(n.answers, cancelled("client"))
			}
		default:
			n.answers = append(n.answers, &brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Settled{Settled: t.settled}})
		}
		if more = len(n.answers) < maxTasks; !more {
			break
		}
		select {
		case t = <-x.tasks:
		default:
			more = false
		}
	}
	if err != nil {
		return notices{failed: err}
	}
	if err = x.c.Flush(ctx); err == nil {
		err = x.c.Missed()
	}
	if err != nil {
		return notices{ended: err}
	}
	return n
}

func cancelled(cause string) *brokerv1.ConsumeResponse {
	return &brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Cancelled{Cancelled: &brokerv1.ConsumeCancelled{Cause: cause}}}
}

// write sends deliveries and notices until the stream ends. Notices keep their order: while some are due, it takes no others.
func (x *consumeStream) write() error {
	life, cut := lifeOf(x.stream.Context()), x.s.b.Serving.CutOff()
	for {
		next := x.notices
		if len(x.due) > 0 {
			next = nil
		}
		select {
		case <-x.c.Ready():
			_, ended, err := x.deliver()
			if !ended && err == nil {
				ended, err = x.sendDue()
			}
			if ended || err != nil {
				return err
			}
		case n := <-next:
			ended, err := x.notify(n)
			if ended || err != nil {
				return err
			}
		case err := <-x.read:
			return err
		case <-life.Done():
			return context.Cause(life)
		case <-cut:
			return x.s.b.Serving.ErrCutOff()
		case <-x.stream.Context().Done():
			return x.stream.Context().Err()
		}
	}
}

// deliver sends one response of deliveries, and returns how many are in it. If more are waiting, Ready fires again.
func (x *consumeStream) deliver() (n int, ended bool, err error) {
	if err := x.sendActivity(); err != nil {
		return 0, false, err
	}
	if err := x.sendRevoked(); err != nil {
		return 0, false, err
	}
	out := x.s.newOutgoing()
	defer x.s.release(out)
	out.taken, err = x.c.Take(out.taken, x.s.cfg.DeliveryBatch, x.s.cfg.DeliveryBytes)
	if err != nil {
		ended, err = x.consumerEnded(err)
		return 0, ended, err
	}
	if len(out.taken) == 0 {
		return 0, false, nil
	}
	return len(out.taken), false, x.stream.SendMsg(out)
}

// deliverAll sends all deliveries that are there. pending says that the consumer has others, which had no room yet: Ready
// fires when they come.
func (x *consumeStream) deliverAll() (pending, ended bool, err error) {
	for {
		pending = x.c.HasPending() // before the look at what is there
		n, ended, err := x.deliver()
		if n == 0 || ended || err != nil {
			return pending, ended, err
		}
	}
}

// sendActivity sends whether the consumer is the active one, if that has changed.
func (x *consumeStream) sendActivity() error {
	a, news := x.c.TakeActivity()
	if !news {
		return nil
	}
	return x.stream.Send(&brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Activity{
		Activity: &brokerv1.ConsumeActivity{Active: a == broker.Active},
	}})
}

// sendRevoked sends the deliveries that the client held for too long.
func (x *consumeStream) sendRevoked() error {
	ids := x.c.TakeRevoked()
	if len(ids) == 0 {
		return nil
	}
	return x.stream.Send(&brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Revoked{
		Revoked: &brokerv1.Revoked{DeliveryIds: ids},
	}})
}

// consumerEnded notifies the client that its consumer has ended. Where another node can take over, the
// stream ends with that error instead.
func (x *consumeStream) consumerEnded(err error) (ended bool, _ error) {
	var e *failure.Error
	if !errors.As(err, &e) {
		return true, err
	}
	cause := ""
	switch e.Class {
	case failure.NotFound:
		cause = "queue deleted"
	case failure.PreconditionFailed:
		if len(x.due) > 0 {
			return true, x.sendRest()
		}
		cause = "consumer lost"
	default:
		return true, err
	}
	return true, x.stream.Send(cancelled(cause))
}

// notify sends the outcomes of tasks, then ends the stream if one failed or the consumer has ended.
func (x *consumeStream) notify(n notices) (ended bool, err error) {
	x.due = n.answers
	if ended, err = x.sendDue(); ended || err != nil {
		return ended, err
	}
	if n.ended != nil {
		return x.consumerEnded(n.ended)
	}
	return false, n.failed
}

// sendDue sends the answers that are due. The answer to a cancel follows the consumer's last delivery (CO-3); it and those
// behind it stay due while that has not come.
func (x *consumeStream) sendDue() (ended bool, err error) {
	for len(x.due) > 0 {
		r := x.due[0]
		if r.GetCancelled() != nil {
			pending, ended, err := x.deliverAll()
			if pending || ended || err != nil {
				return ended, err
			}
		}
		if err := x.stream.Send(r); err != nil {
			return false, err
		}
		x.due = x.due[1:]
	}
	return false, nil
}

// sendRest sends the answers that are due when the consumer has ended. The first one is the answer to a cancel, and that the
// queue no longer knows the consumer follows from the cancel: with requeue, its last deliveries are back in the queue.
func (x *consumeStream) sendRest() error {
	for _, r := range x.due {
		if err := x.stream.Send(r); err != nil {
			return err
		}
	}
	x.due = nil
	return nil
}

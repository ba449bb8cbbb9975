package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/wait"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

type brokerServer struct {
	brokerv1.UnimplementedBrokerServer
	s *Server
}

// PublishOne publishes one message and waits for its result.
func (x *brokerServer) PublishOne(ctx context.Context, req *brokerv1.PublishOneRequest) (*brokerv1.PublishOneResponse, error) {
	if req.GetMessage() == nil {
		return nil, invalid("message", "message", "", "is not set")
	}
	var p broker.Publish
	if err := setPublish(&p, req.GetMessage()); err != nil {
		return nil, err
	}
	sender, err := x.s.b.NewSender(ctx)
	if err != nil {
		return nil, err
	}
	p.Sender = sender
	room := keptOf(ctx)
	if err := x.s.b.AwaitQuotas(ctx, &p, room.inTheWay); err != nil {
		return nil, err
	}
	room.letGo()
	result := make(chan broker.Result, 1)
	x.s.b.Publish(ctx, &p, func(r broker.Result) { result <- r })
	select {
	case r := <-result:
		if r.Kind == broker.Invalid {
			return nil, r.Err
		}
		out := &brokerv1.PublishOneResponse{Result: &brokerv1.PublishResult{}}
		toResult(out.Result, &r)
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Publish carries messages one way and results the other.
func (x *brokerServer) Publish(stream grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]) error {
	if err := x.s.b.Serving.Admit(); err != nil {
		return err
	}
	closed, err := x.s.b.Connections.OpenChannel(stream.Context())
	if err != nil {
		return err
	}
	defer closed()
	sender, err := x.s.b.NewSender(stream.Context())
	if err != nil {
		return err
	}
	p := &publishStream{
		s: x.s, stream: stream, sender: sender,
		news: make(chan struct{}, 1), room: make(chan struct{}, 1), read: make(chan error, 1),
	}
	return p.run()
}

// publishStream is one Publish stream. The handler's goroutine writes, a second one
// reads; what lies between them is guarded by mu. The reader may outlive the handler by
// the call in which it is stuck.
type publishStream struct {
	s      *Server
	stream grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]

	news chan struct{} // holds a token when there are results
	room chan struct{} // holds a token when the window has room again
	read chan error    // why the reader ended

	mu       sync.Mutex
	results  []broker.Result
	inFlight int  // taken and not yet in results
	ending   bool // nothing more is taken

	// Of the reader alone.
	sender   *broker.Sender
	in       string // the vhost that the stream is counted in
	leave    func() // ends that; nil: it is not counted yet
	last     uint64
	first    bool               // the first request was seen
	producer *broker.ProducerID // nil: none
}

func (p *publishStream) run() error {
	go func() {
		err := p.readAll()
		if p.leave != nil {
			p.leave()
		}
		p.read <- err
	}()
	return p.write()
}

// readAll takes messages until the client has no more.
func (p *publishStream) readAll() error {
	ctx := p.stream.Context()
	done, room := p.result, keptOf(ctx)
	inTheWay := room.inTheWay
	var req brokerv1.PublishRequest
	var m broker.Publish
	for {
		if err := p.awaitRoom(ctx); err != nil {
			return err
		}
		if err := p.stream.RecvMsg(&req); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		opened, err := p.accept(&req)
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		if a := p.s.b.Alarm(); a != nil { // PUB-10
			select {
			case <-a.Ended():
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		wrong := setPublish(&m, req.GetMessage())
		m.Token, m.Sender = req.GetSequence(), p.sender
		m.Producer, m.ProducerSeq = p.producer, req.GetSequence()
		if wrong == nil {
			if err := p.s.b.AwaitQuotas(ctx, &m, inTheWay); err != nil { // VH-14
				return err
			}
		}
		room.letGo()
		refused := p.enter(ctx, m.VHost)
		if !p.take() {
			return nil
		}
		if err := cmp.Or(refused, wrong); err != nil {
			done(broker.Result{Token: m.Token, Kind: broker.Invalid, Err: err})
			continue
		}
		p.s.b.Publish(ctx, &m, done)
	}
}

// enter counts the stream as a channel of the vhost that its next message is for (VH-4).
func (p *publishStream) enter(ctx context.Context, vhost string) error {
	if p.leave != nil && vhost == p.in {
		return nil
	}
	if p.leave != nil {
		p.leave()
		p.leave = nil
	}
	leave, err := p.s.b.Connections.OpenChannelIn(ctx, vhost)
	if err == nil {
		p.in, p.leave = vhost, leave
	}
	return err
}

// take counts a message, unless the stream ends: then its client gets no result of it, as of
// those that are still on their way.
func (p *publishStream) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ending {
		p.inFlight++
	}
	return !p.ending
}

// takeNoMore ends the reader with the next message that comes.
func (p *publishStream) takeNoMore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
}

// accept checks a request's place in the stream; opened reports that it carries no message.
func (p *publishStream) accept(req *brokerv1.PublishRequest) (opened bool, err error) {
	if id := req.GetProducer(); len(id) > 0 {
		switch {
		case len(id) != len(broker.ProducerID{}):
			return false, invalid("stream", "producer", strconv.Itoa(len(id))+" bytes", "want 16 bytes")
		case p.first && (p.producer == nil || broker.ProducerID(id) != *p.producer):
			return false, invalid("stream", "producer", "", "belongs into the first request of the stream; open another stream for another publisher")
		}
		name := broker.ProducerID(id)
		p.producer = &name
	}
	first := !p.first
	p.first = true
	if req.GetMessage() == nil {
		if first && req.GetSequence() == 0 {
			return true, nil
		}
		return false, invalid("stream", "message", "", "is not set; only the first request may come without one, and then without sequence")
	}
	if n := req.GetSequence(); n <= p.last {
		return false, invalid("stream", "sequence", strconv.FormatUint(n, 10),
			fmt.Sprintf("must be above the one before, %d; number the messages of a stream upwards from 1", p.last))
	}
	p.last = req.GetSequence()
	return false, nil
}

// awaitRoom waits while the window is full.
func (p *publishStream) awaitRoom(ctx context.Context) error {
	for {
		p.mu.Lock()
		full := p.inFlight >= p.s.cfg.PublishWindow
		p.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-p.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// retryNow is what a client is told to wait before it asks another node.
const retryNow = 50 * time.Millisecond

func errStopping() error {
	return &failure.Error{Class: failure.Unavailable, Kind: "node", Reason: "this node is stopping; use another node", RetryAfter: retryNow}
}

// result takes the result of one message; it is called from any goroutine.
func (p *publishStream) result(r broker.Result) {
	p.mu.Lock()
	p.inFlight--
	p.results = append(p.results, r)
	p.mu.Unlock()
	wait.Wake(p.news)
	wait.Wake(p.room)
}

// write sends results, all that have gathered at a time. When the reader has ended, or
// the connection's life does, it first waits until every message that was taken has its result,
// unless the node is cut off: the client sends again what has none.
func (p *publishStream) write() (end error) {
	life, cut := lifeOf(p.stream.Context()), p.s.b.Serving.CutOff()
	var res brokerv1.PublishResult
	resp := &brokerv1.PublishResponse{Result: &res}
	var batch []broker.Result
	ending := false
	for {
		p.mu.Lock()
		batch, p.results = p.results, batch[:0]
		waiting := p.inFlight
		p.mu.Unlock()
		for i := range batch {
			resp.Sequence = batch[i].Token
			toResult(&res, &batch[i])
			if err := p.stream.Send(resp); err != nil {
				return err
			}
		}
		if len(batch) > 0 {
			clear(batch)
			continue
		}
		if ending && waiting == 0 {
			return end
		}
		over := life.Done()
		if ending {
			over = nil
		}
		select {
		case <-p.news:
		case err := <-p.read:
			if !ending {
				ending, end = true, err
			}
		case <-over:
			p.takeNoMore()
			ending, end = true, context.Cause(life)
		case <-cut: // what was taken has no result for long
			p.takeNoMore()
			return p.s.b.Serving.ErrCutOff()
		case <-p.stream.Context().Done():
			return p.stream.Context().Err()
		}
	}
}

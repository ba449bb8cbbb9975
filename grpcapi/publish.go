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

// brokerServer serves Broker: publishing, consuming, getting and connecting.
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
	sender, err := x.s.b.NewSender(ctx, &connectionOf(ctx).rights)
	if err != nil {
		return nil, err
	}
	p.Sender = sender
	room := keptOf(ctx)
	if err := x.s.awaitAlarm(ctx, room.inTheWay); err != nil { // PUB-10
		return nil, err
	}
	if err := x.s.b.AwaitQuotas(ctx, &p, room.inTheWay); err != nil { // VH-14
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

// Publish carries messages in one direction and results in the other.
func (x *brokerServer) Publish(stream grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]) error {
	if err := x.s.b.Serving.Admit(); err != nil {
		return err
	}
	closed, err := x.s.b.Connections.OpenChannel(stream.Context())
	if err != nil {
		return err
	}
	defer closed()
	sender, err := x.s.b.NewSender(stream.Context(), &connectionOf(stream.Context()).rights)
	if err != nil {
		return err
	}
	p := &publishStream{
		s: x.s, stream: stream, sender: sender,
		news: make(chan struct{}, 1), room: make(chan struct{}, 1), read: make(chan error, 1),
	}
	p.done = p.result
	return p.run()
}

// publishStream is one Publish stream. The handler's goroutine writes, a second one reads; what
// lies between them is guarded by mu. The reader may outlive the handler by the call that it is in.
type publishStream struct {
	s      *Server
	stream grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]

	news chan struct{} // holds a token when results are waiting
	room chan struct{} // holds a token when the window has room again
	read chan error    // why the reader ended

	mu       sync.Mutex
	results  []broker.Result
	inFlight int   // accepted and not yet in results
	unsent   int   // accepted, and the result is not sent
	ending   bool  // no more messages are accepted
	notTaken error // a producer's message was not taken, and nothing may overtake it
	batches  bool  // the caller reads results in batches

	// Owned by the reader.
	sender   *broker.Sender
	in       string // the vhost in which the stream counts
	leave    func() // ends that count; nil: the stream is not counted yet
	last     uint64
	first    bool               // the first request has arrived
	producer *broker.ProducerID // nil: none
	message  broker.Publish     // the one that is being published
	done     func(broker.Result)
}

// run reads in a second goroutine and writes in the handler's. The reader does its own cleaning up,
// since it may outlive the handler.
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

// readAll reads messages until the client ends the stream.
func (p *publishStream) readAll() error {
	ctx := p.stream.Context()
	room := keptOf(ctx)
	var frame publishFrame
	for {
		if err := p.awaitRoom(ctx); err != nil {
			return err
		}
		if err := p.stream.RecvMsg(&frame); err != nil { // what was too slow may still be read into the frame
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		goesOn, err := p.publishAll(ctx, &frame, room)
		frame.release()
		if err != nil || !goesOn {
			return err
		}
	}
}

// publishAll publishes the messages of a request. goesOn is false when the stream takes no more messages.
func (p *publishStream) publishAll(ctx context.Context, frame *publishFrame, room *kept) (goesOn bool, err error) {
	opened, err := p.accept(frame)
	if err != nil || opened {
		return true, err
	}
	for i := range frame.count() {
		if goesOn, err = p.publish(ctx, frame, i, room); err != nil || !goesOn {
			return false, err
		}
	}
	return true, nil
}

// publish publishes a message of a request. goesOn is false when the stream takes no more messages.
func (p *publishStream) publish(ctx context.Context, frame *publishFrame, i int, room *kept) (goesOn bool, err error) {
	n, m := frame.at(i), &p.message
	if i > 0 {
		if err := p.acceptSequence(n.sequence); err != nil {
			return false, err
		}
		if err := p.awaitRoom(ctx); err != nil {
			return false, err
		}
	}
	if err := p.s.awaitAlarm(ctx, room.inTheWay); err != nil { // PUB-10
		return false, err
	}
	broken, wrong := frame.publish(m, n)
	if broken != nil {
		return false, unreadable(broken)
	}
	m.Token, m.Sender = n.sequence, p.sender
	m.Producer, m.ProducerSeq = p.producer, n.sequence
	if wrong == nil {
		if err := p.s.b.AwaitQuotas(ctx, m, room.inTheWay); err != nil { // VH-14
			return false, err
		}
	}
	room.letGo() // a request of several messages has none
	refused := p.enter(ctx, m.VHost)
	if !p.take() {
		return false, nil
	}
	if err := cmp.Or(refused, wrong); err != nil {
		p.done(broker.Result{Token: m.Token, Kind: broker.Invalid, Err: err})
		return true, nil //nolint:nilerr // it is the message's result
	}
	p.s.b.Publish(ctx, m, p.done)
	return true, nil
}

// alarmLook is the interval at which a message that waits for the end of an alarm checks whether it is in the way of
// others.
const alarmLook = 250 * time.Millisecond

// awaitAlarm waits while the node takes no messages. It fails with ResourceExhausted as soon as giveUp returns true.
func (s *Server) awaitAlarm(ctx context.Context, giveUp func() bool) error {
	a := s.b.Alarms.Now()
	if a == nil {
		return nil
	}
	look := time.NewTicker(alarmLook)
	defer look.Stop()
	for {
		select {
		case <-a.Ended():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		if giveUp() {
			return &failure.Error{
				Class: failure.ResourceExhausted, Kind: "message", RetryAfter: receiveRetry,
				Reason: "waits, and others need its room: " + a.Reason,
			}
		}
	}
}

// enter counts the stream as a channel of the vhost of its next message (VH-4).
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

// take counts a message, unless the stream is ending: then the client gets no result for it, as for
// all messages still in transit.
func (p *publishStream) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ending {
		p.inFlight++
		p.unsent++
	}
	return !p.ending
}

// takeNoMore ends the reader at the next message.
func (p *publishStream) takeNoMore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
}

// accept checks a request's position in the stream; opened reports that the request has no message.
func (p *publishStream) accept(req *publishFrame) (opened bool, err error) {
	if err := p.acceptProducer(req.producer); err != nil {
		return false, err
	}
	first := !p.first
	p.first = true
	if req.batches {
		if !first {
			return false, invalid("stream", "batches", "true", "belongs in the first request of the stream")
		}
		p.mu.Lock()
		p.batches = true
		p.mu.Unlock()
		wait.Wake(p.news)
	}
	if n := req.count() + req.further; n > maxBatch {
		return false, invalid("stream", "more", strconv.Itoa(n-1)+" messages", fmt.Sprintf("want at most %d in a request", maxBatch))
	}
	if len(req.more) > 0 && req.bytes > windowBytes { // it has room, which its messages must not keep while they wait in turn
		return false, invalid("stream", "more", strconv.Itoa(req.bytes)+" bytes",
			fmt.Sprintf("want at most %d bytes in a request of several messages; send large ones alone", windowBytes))
	}
	for i := range req.more {
		if m := &req.more[i]; !m.there || m.other {
			return false, invalid("stream", "more", "", "want a sequence and a message in each, and nothing else")
		}
	}
	if !req.there {
		if first && req.sequence == 0 && len(req.more) == 0 {
			return true, nil
		}
		return false, invalid("stream", "message", "", "is not set; only the first request may come without one, and then without sequence")
	}
	return false, p.acceptSequence(req.sequence)
}

// acceptProducer takes the name of the publisher from the first request.
func (p *publishStream) acceptProducer(id []byte) error {
	if len(id) == 0 {
		return nil
	}
	switch {
	case len(id) != len(broker.ProducerID{}):
		return invalid("stream", "producer", strconv.Itoa(len(id))+" bytes", "want 16 bytes")
	case p.first && (p.producer == nil || broker.ProducerID(id) != *p.producer):
		return invalid("stream", "producer", "", "belongs in the first request of the stream; open another stream for another publisher")
	}
	if p.producer == nil {
		name := broker.ProducerID(id)
		p.producer = &name
	}
	return nil
}

// acceptSequence checks the sequence of the next message.
func (p *publishStream) acceptSequence(n uint64) error {
	if n <= p.last {
		return invalid("stream", "sequence", strconv.FormatUint(n, 10),
			fmt.Sprintf("must be above the one before, %d; number the messages of a stream upwards from 1", p.last))
	}
	p.last = n
	return nil
}

// awaitRoom waits while the window is full.
func (p *publishStream) awaitRoom(ctx context.Context) error {
	for {
		p.mu.Lock()
		full := p.unsent >= p.s.cfg.PublishWindow
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

// retryNow is how long a client is asked to wait before it tries another node.
const retryNow = 50 * time.Millisecond

func errStopping() error {
	return &failure.Error{Class: failure.Unavailable, Kind: "node", Reason: "this node is stopping; use another node", RetryAfter: retryNow}
}

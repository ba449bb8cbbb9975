package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorate/quorate/internal/wait"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// PublisherConfig describes a publisher. Zero values are the defaults.
type PublisherConfig struct {
	// MaxInFlight limits the span of unanswered messages; 0: 4096.
	MaxInFlight int
	// Producer is the name of the publisher for queues: 16 random bytes that no other publisher
	// uses; nil: the client chooses them. First is the number of its first message; 0: 1. Each
	// further message has the next number.
	//
	// A program that must not publish twice even if it crashes keeps Producer on disk, and its
	// unanswered messages with their numbers. After a restart it opens the publisher with the
	// lowest of these numbers as First, and publishes the same messages from there on in the same
	// order. Messages that a queue has stored already are confirmed and not stored again (PUB-6).
	Producer []byte
	First    uint64
}

// producerBytes is the length of PublisherConfig.Producer.
const producerBytes = 16

const (
	defaultInFlight = 4096     // PublisherConfig.MaxInFlight if it is 0
	maxInFlightCap  = 1 << 20  // the largest PublisherConfig.MaxInFlight
	sendBatch       = 256      // messages passed to the stream between checks of the ring
	maxJoinedBytes  = 32 << 10 // of messages that go out in one request
)

// Publisher publishes over one stream; if that is lost, over a new one on another node. Messages of
// one publisher to one queue keep their order (PUB-6).
type Publisher struct {
	c        *Client
	producer []byte

	mu       sync.Mutex
	ring     []pending     // entry of sequence s is at s % len(ring)
	base     uint64        // lowest sequence that is unanswered, or next
	next     uint64        // sequence of the next message
	sent     uint64        // sequences below went out on the current stream
	err      error         // why it ended
	changed  chan struct{} // closed when there is space or an answer; nil: nobody waits for that
	wake     chan struct{} // the sender has work; one token
	ctx      context.Context
	stop     context.CancelFunc
	finished chan struct{}
	resent   uint64
	on       *node // node of the current stream

	lookedBase, lookedSent uint64 // base and sent when guard last looked
}

// pending is an unanswered message; a nil request is an answered one.
type pending struct {
	request *brokerv1.PublishRequest
	done    func(Result, error)
}

// Publisher opens a publisher. It connects by itself, now and after every loss of its stream.
func (c *Client) Publisher(cfg PublisherConfig) (*Publisher, error) {
	if cfg.MaxInFlight < 0 || cfg.MaxInFlight > maxInFlightCap {
		return nil, fmt.Errorf("client: MaxInFlight %d is not within 0 and %d", cfg.MaxInFlight, maxInFlightCap)
	}
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = defaultInFlight
	}
	if n := len(cfg.Producer); n != 0 && n != producerBytes {
		return nil, fmt.Errorf("client: Producer has %d bytes: use %d, random ones", n, producerBytes)
	}
	first := max(cfg.First, 1)
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	p := &Publisher{
		c: c, producer: slices.Clone(cfg.Producer), ring: make([]pending, cfg.MaxInFlight), base: first, next: first, sent: first,
		wake: make(chan struct{}, 1), finished: make(chan struct{}),
	}
	if p.producer == nil {
		p.producer = make([]byte, producerBytes)
		_, _ = rand.Read(p.producer) // never fails
	}
	p.ctx, p.stop = context.WithCancel(c.ctx)
	c.mu.Lock()
	c.publishers[p] = struct{}{}
	c.mu.Unlock()
	go p.run()
	return p, nil
}

// Publish publishes a message and waits for its result. The error is nil if it is
// confirmed; *NotConfirmedError if it was rejected or returned; *Error if it is invalid.
// If ctx ends first the error wraps ErrUnknownOutcome, and the message is still sent.
func (p *Publisher) Publish(ctx context.Context, m Message) (Result, error) {
	type answer struct {
		result Result
		err    error
	}
	answered := make(chan answer, 1)
	err := p.PublishAsync(ctx, m, func(r Result, err error) { answered <- answer{r, err} })
	if err != nil {
		return Result{}, err
	}
	select {
	case a := <-answered:
		return a.result, a.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, ctx.Err())
	}
}

// PublishAsync queues a message for publishing, waiting while MaxInFlight messages are unanswered.
// If it returns nil, done is called once with what Publish would return, from a goroutine of the
// publisher, so it must not block; otherwise nothing was sent. done may be nil.
func (p *Publisher) PublishAsync(ctx context.Context, m Message, done func(Result, error)) error {
	if err := p.c.checkSize(&m); err != nil {
		return err
	}
	message, err := m.proto()
	if err != nil {
		return err
	}
	for {
		p.mu.Lock()
		if p.err != nil {
			p.mu.Unlock()
			return p.err
		}
		if p.next-p.base < uint64(len(p.ring)) {
			p.ring[p.next%uint64(len(p.ring))] = pending{
				request: &brokerv1.PublishRequest{Sequence: p.next, Message: message}, done: done,
			}
			p.next++
			p.mu.Unlock()
			p.signal()
			return nil
		}
		changed := p.awaitLocked()
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// checkSize refuses a body above the limit before it travels (MSG-2).
func (c *Client) checkSize(m *Message) error {
	limit := c.cfg.MaxMessageBytes
	if limit <= 0 || len(m.Body) <= limit {
		return nil
	}
	return &Error{
		Class: PreconditionFailed, Kind: "message", Arg: "body", Value: fmt.Sprint(len(m.Body)),
		Text: fmt.Sprintf("message of %d bytes is larger than the limit of %d bytes (Config.MaxMessageBytes)", len(m.Body), limit),
	}
}

// signal wakes the sender; one token is enough, since the sender then looks at the whole ring.
func (p *Publisher) signal() {
	wait.Wake(p.wake)
}

// Flush waits until all messages so far are answered; the done of some may still be about to be called.
func (p *Publisher) Flush(ctx context.Context) error {
	p.mu.Lock()
	upTo := p.next
	p.mu.Unlock()
	for {
		p.mu.Lock()
		reached, err, changed := p.base >= upTo, p.err, p.awaitLocked()
		p.mu.Unlock()
		if reached {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close waits until all messages are answered, or ctx ends; the rest are then answered with
// ErrUnknownOutcome.
func (p *Publisher) Close(ctx context.Context) error {
	err := p.Flush(ctx)
	p.end(ErrClosed)
	<-p.finished
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Resent returns how many messages were sent again after a stream was lost.
func (p *Publisher) Resent() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resent
}

// end records why the publisher has ended, unless it had ended before, and stops its loop.
func (p *Publisher) end(err error) {
	p.mu.Lock()
	if p.err == nil {
		p.err = err
		p.notify()
	}
	p.mu.Unlock()
	p.stop()
}

// awaitLocked returns a channel that is closed when there is space or an answer; p.mu is held.
func (p *Publisher) awaitLocked() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// notify wakes all goroutines that wait for space or for answers; p.mu is held.
func (p *Publisher) notify() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// answer processes the results of a response. It uses dones again, and returns it empty of functions.
func (p *Publisher) answer(r *brokerv1.PublishResponse, dones []func(Result, error)) []func(Result, error) {
	dones = dones[:0]
	p.mu.Lock()
	before := p.base
	dones = append(dones, p.takeLocked(r.GetSequence()))
	for _, further := range r.GetMore() {
		dones = append(dones, p.takeLocked(further.GetSequence()))
	}
	if p.base != before {
		p.notify()
	}
	p.mu.Unlock()
	for i, done := range dones {
		if done == nil {
			continue
		}
		result := r
		if i > 0 {
			result = r.GetMore()[i-1]
		}
		done(resultFromProto(result.GetResult()))
	}
	clear(dones)
	return dones
}

// takeLocked takes an answered message out and returns its done. A result that nobody waits for is a late answer to a
// message that was sent twice, and is ignored. p.mu is held.
func (p *Publisher) takeLocked(s uint64) (done func(Result, error)) {
	size := uint64(len(p.ring))
	if s < p.base || s >= p.next || p.ring[s%size].request == nil {
		return nil
	}
	done = p.ring[s%size].done
	p.ring[s%size] = pending{}
	for p.base < p.next && p.ring[p.base%size].request == nil {
		p.base++
	}
	p.sent = max(p.sent, p.base)
	return done
}

// answered returns the sequence below which everything is answered.
func (p *Publisher) answered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.base
}

// rewind marks everything unanswered as unsent, for a new stream to a node.
func (p *Publisher) rewind(on *node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
	for s := p.base; s < p.sent; s++ {
		if p.ring[s%uint64(len(p.ring))].request != nil {
			p.resent++
		}
	}
	p.sent = p.base
}

// unsent appends the next messages to send, at most sendBatch, and marks them as sent.
func (p *Publisher) unsent(dst []*brokerv1.PublishRequest) []*brokerv1.PublishRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.sent < p.next && len(dst) < sendBatch; p.sent++ {
		if r := p.ring[p.sent%uint64(len(p.ring))].request; r != nil {
			dst = append(dst, r)
		}
	}
	return dst
}

// fail answers everything unanswered with the publisher's error.
func (p *Publisher) fail() {
	p.mu.Lock()
	err := p.err
	var callbacks []func(Result, error)
	for s := p.base; s < p.next; s++ {
		e := &p.ring[s%uint64(len(p.ring))]
		if e.request != nil && e.done != nil {
			callbacks = append(callbacks, e.done)
		}
		*e = pending{}
	}
	p.base, p.sent = p.next, p.next
	p.notify()
	p.mu.Unlock()
	for _, done := range callbacks {
		done(Result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, err))
	}
}

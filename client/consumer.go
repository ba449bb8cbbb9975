package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/wait"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// ConsumeConfig describes a consumer. Zero values are the defaults.
type ConsumeConfig struct {
	VHost string // "": "/"
	Queue string
	// Prefetch limits the unsettled messages; 0: the broker's limit of 2000 (DEL-3).
	Prefetch uint32
	// AutoAck settles at delivery: a client that fails loses what it has not read (DEL-4).
	AutoAck bool
	// Priority: higher is served first (DEL-2).
	Priority int32
	// Exclusive fails if there is another consumer, and prevents others later (CO-2).
	Exclusive bool
	Tag       string // names the consumer in listings
	// Timeout limits how long a delivery may stay unacked (CT-1); 0: the queue's timeout, negative:
	// no timeout.
	Timeout time.Duration
	// Concurrency is how many messages Run handles at a time; 0: one. With more, order is lost: a
	// message may be finished before an earlier one. A smaller Prefetch leaves handlers idle.
	Concurrency int
}

// Validate returns all faults at once.
func (c ConsumeConfig) Validate() error {
	var errs []error
	if c.Queue == "" {
		errs = append(errs, errors.New("client: ConsumeConfig.Queue is empty: name the queue to consume"))
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("client: ConsumeConfig.Concurrency is %d: set how many messages Run handles at a time, 0 for one", c.Concurrency))
	}
	return errors.Join(errs...)
}

const (
	maxSettlementIDs = 10000 // of one settlement, as in the wire API
	deliveryBuffer   = 2048  // deliveries that may wait for Receive before the stream is held back
)

// Consumer receives the messages of a queue, over one stream at a time.
type Consumer struct {
	c   *Client
	cfg ConsumeConfig

	ctx      context.Context
	stop     context.CancelFunc
	finished chan struct{}
	opened   chan error // result of the first opening
	arrived  chan *Delivery

	mu         sync.Mutex
	stream     uint64 // number of the current stream; 0: none
	token      string // names the current stream's deliveries, with their ids
	lastStream uint64
	unsettled  map[uint64]bool // ids of the current stream
	decided    []decided       // waiting to be sent, in order
	batch      uint64          // number of the last requested flush; only its answer counts
	flushed    uint64          // decisions covered by the last flush sent
	wantFlush  bool
	decisions  uint64                  // decisions made on all streams
	certain    uint64                  // decisions that are committed, or reported as lost
	lost       bool                    // some were lost with their stream, which no call has reported yet
	cancel     *brokerv1.ConsumeCancel // waiting to be sent
	cancelled  bool                    // by Cancel
	revoked    map[uint64]bool         // ids of the current stream that stayed unacked for too long and are back in the queue
	extend     []*brokerv1.ExtendAckDeadline
	changed    chan struct{}
	wake       chan struct{}
	gone       bool // the queue has processed Cancel
	activity   Activity
	err        error
}

// decided is a decision about one delivery.
type decided struct {
	id uint64
	Decision
	annotations *brokerv1.Table
}

// Consume opens a consumer and waits until the queue has it. ctx bounds only the opening; Close
// ends the consumer.
func (c *Client) Consume(ctx context.Context, cfg ConsumeConfig) (*Consumer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	s := &Consumer{
		c: c, cfg: cfg, finished: make(chan struct{}), opened: make(chan error, 1),
		arrived: make(chan *Delivery, deliveryBuffer), changed: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	s.ctx, s.stop = context.WithCancel(c.ctx)
	go s.run()
	if _, bounded := ctx.Deadline(); !bounded && c.cfg.CallTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.CallTimeout)
		defer cancel()
	}
	select {
	case err := <-s.opened:
		if err != nil {
			s.Close()
			return nil, err
		}
		return s, nil
	case <-ctx.Done():
		s.Close()
		return nil, fmt.Errorf("client: consumer of queue %q was not opened: %w", cfg.Queue, ctx.Err())
	}
}

// Receive returns the next delivery. The error is ErrClosed after Close, wraps
// ErrCancelled when the queue ended the consumer, or is ctx's.
func (s *Consumer) Receive(ctx context.Context) (*Delivery, error) {
	for {
		select {
		case d := <-s.arrived:
			if s.current(d) {
				return d, nil
			}
			continue
		default:
		}
		select {
		case d := <-s.arrived:
			if s.current(d) {
				return d, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.finished:
			if len(s.arrived) == 0 || !s.cfg.AutoAck {
				return nil, s.failure()
			}
		}
	}
}

// current reports whether a delivery can still be settled, or was settled when it was delivered.
func (s *Consumer) current(d *Delivery) bool {
	if s.cfg.AutoAck {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.stream == s.stream
}

// decide queues a decision for the sender.
func (s *Consumer) decide(d *Delivery, decision Decision) error {
	annotations, err := decision.Annotations.proto()
	if err != nil {
		return err
	}
	if decision.Kind.proto() == brokerv1.Outcome_OUTCOME_UNSPECIFIED {
		return fmt.Errorf("client: decision kind %d is none of Ack, Requeue and Discard", decision.Kind)
	}
	s.mu.Lock()
	if d.stream != s.stream || !s.unsettled[d.id] {
		s.mu.Unlock()
		return ErrStale
	}
	delete(s.unsettled, d.id)
	delete(s.revoked, d.id)
	s.decisions++
	s.decided = append(s.decided, decided{id: d.id, Decision: decision, annotations: annotations})
	s.mu.Unlock()
	s.signal()
	return nil
}

// Activity is whether a consumer of a queue is the active one.
type Activity uint8

// The activities.
const (
	// Shared: the queue has no single active consumer, or the broker has not reported yet.
	Shared Activity = iota
	// Active: this consumer receives the queue's messages.
	Active
	// Waiting: another consumer receives; this one may take over.
	Waiting
)

// Activity returns what the broker last reported about the consumer (SAC-4).
func (s *Consumer) Activity() Activity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.activity
}

// AwaitActivity waits until the consumer has the wanted activity. It returns the consumer's error
// if that has ended, or ctx's.
func (s *Consumer) AwaitActivity(ctx context.Context, want Activity) error {
	for {
		s.mu.Lock()
		have, err, changed := s.activity, s.err, s.changed
		s.mu.Unlock()
		switch {
		case have == want:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Reopened returns how often the consumer was opened again after its stream was lost. Messages that
// were unsettled then are delivered again, perhaps to other consumers.
func (s *Consumer) Reopened() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.lastStream, 1) - 1
}

// setActivity records what the broker reports about a single active consumer (SAC-4).
func (s *Consumer) setActivity(a Activity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.activity = a
	s.notify()
}

// signal wakes the sender; one token is enough, since the sender then looks at everything.
func (s *Consumer) signal() {
	wait.Wake(s.wake)
}

// Flush waits until all decisions made so far are committed. The error wraps ErrStale,
// once, if decisions made since the last Flush were lost with their stream: their
// messages may be delivered again.
func (s *Consumer) Flush(ctx context.Context) error {
	s.mu.Lock()
	decisions := s.decisions
	if s.certain < decisions {
		s.batch++
		s.wantFlush = true
	}
	s.mu.Unlock()
	s.signal()
	for {
		s.mu.Lock()
		lost, certain, err, changed := s.lost, s.certain, s.err, s.changed
		s.lost = false
		s.mu.Unlock()
		switch {
		case lost:
			return fmt.Errorf("%w: the stream was lost before its decisions were committed", ErrStale)
		case certain >= decisions:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isRevoked reports whether the queue took the delivery back (CT-2). Deliveries of earlier streams
// are stale instead.
func (s *Consumer) isRevoked(d *Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.stream == s.stream && s.revoked[d.id]
}

// revoke marks deliveries that the queue took back. It ignores ids that the client has settled
// meanwhile.
func (s *Consumer) revoke(ids []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.unsettled[id] {
			s.revoked[id] = true
		}
	}
	s.notify()
}

// extendAckDeadline queues the request for the sender.
func (s *Consumer) extendAckDeadline(d *Delivery, by time.Duration) error {
	if by < time.Millisecond {
		return fmt.Errorf("client: ack deadline of %v: want 1ms or more", by)
	}
	s.mu.Lock()
	if d.stream != s.stream || !s.unsettled[d.id] || s.revoked[d.id] {
		s.mu.Unlock()
		return ErrStale
	}
	s.extend = append(s.extend, &brokerv1.ExtendAckDeadline{DeliveryIds: []uint64{d.id}, Milliseconds: by.Milliseconds()})
	s.mu.Unlock()
	s.signal()
	return nil
}

// timeout converts Timeout for the wire.
func (c *ConsumeConfig) timeout() *int64 {
	if c.Timeout == 0 {
		return nil
	}
	ms := max(c.Timeout, 0).Milliseconds()
	if c.Timeout > 0 && ms == 0 {
		ms = 1
	}
	return &ms
}

// Cancel ends delivery and waits until the queue has processed it. Messages delivered before may
// still be settled until Close or the loss of the stream; with requeue, unsettled ones return to
// the queue at once, not failed (CO-3).
func (s *Consumer) Cancel(ctx context.Context, requeue bool) error {
	s.mu.Lock()
	s.cancel = &brokerv1.ConsumeCancel{Requeue: requeue}
	s.mu.Unlock()
	s.signal()
	for {
		s.mu.Lock()
		gone, err, changed := s.gone, s.err, s.changed
		s.mu.Unlock()
		if gone || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the consumer. Decisions made before are sent; unsettled messages return to the queue
// as failed deliveries (DEL-8).
func (s *Consumer) Close() {
	ctx, cancel := context.WithTimeout(s.ctx, s.c.cfg.ProbeTimeout)
	defer cancel()
	s.mu.Lock()
	open := s.stream != 0 && s.err == nil
	s.mu.Unlock()
	if open {
		_ = s.Flush(ctx) // without the answer the messages are delivered again
	}
	s.end(ErrClosed)
	<-s.finished
}

// end records why the consumer has ended, unless it had ended before, and stops its loops.
func (s *Consumer) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
		s.notify()
	}
	s.mu.Unlock()
	s.stop()
}

// failure returns why the consumer ended; nil while it runs.
func (s *Consumer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// notify wakes all goroutines that wait for commits; s.mu is held.
func (s *Consumer) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

package gateway

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
)

// Limits of one gateway's end of one queue.
const (
	maxBatchMessages    = 512      // messages of one Enqueue
	maxBatchBytes       = 1 << 20  // bytes of bodies of one Enqueue
	MaxWaitingBytes     = 64 << 20 // bytes of bodies that wait for their answer
	maxEnqueuesInFlight = 4        // Enqueues sent and not answered; more gather meanwhile
	maxOutcomesInFlight = 4        // commands of one consumer's decisions sent and not answered
	maxInboxBytes       = 4 << 20  // bytes of deliveries that came and were not looked at
	minRetryWait        = 10 * time.Millisecond
	maxRetryWait        = 250 * time.Millisecond
	tickEvery           = 250 * time.Millisecond // deadlines are looked at this often
	// GetAckTimeout is the ack timeout of a message from Get (the default of CT-1).
	GetAckTimeout = 30 * time.Minute
)

// Queue is this node's end of one queue, as gateway for its clients. It sends messages and commands
// in order, and again after a change of leader, until they are answered (PUB-6). All methods may be
// called concurrently.
//
// The mutex mu guards all state. One goroutine at a time (running) sends and calls back, both
// without mu, so that sends and calls keep their order. It is a caller that finds no other
// goroutine at work (publishedLocked, sendNowLocked, answerNow, deliverLocked), or otherwise, and
// for everything that gathers in the inbox meanwhile, the queue's own goroutine (run).
type Queue struct {
	g   *Gateway
	uid id.QueueUID

	mu      sync.Mutex
	running bool  // a goroutine works on the queue, or will
	ended   error // set once: the queue is gone or the node stops
	leaves  error // why there are no consumers any more: the queue is being deleted
	inbox   inbox
	looked  sync.Cond     // the inbox was emptied
	room    chan struct{} // closed when the window has room again
	waiters int           // calls of Enqueue that may wait for room
	waiting int           // messages accepted by Enqueue and not answered
	bytes   int64         // of their bodies

	publisher *session.Publisher[publishToken]
	enqueues  int // Enqueue commands in flight in this attempt
	ops       opQueue
	consumers map[uint64]*Consumer // by session
	get       getSession

	target   id.NodeID     // where commands go; "" while nobody is known to lead
	hint     id.NodeID     // who leads as another node said
	rotation int           // goes through the members while nobody knows
	attempt  uint64        // grows whenever everything unanswered is sent again
	wait     time.Duration // before the next attempt; doubles
	blocked  bool          // until retryAt
	retryAt  time.Time
	alarm    alarm
}

// publishToken is what an unanswered message needs: whom to tell, and by when.
type publishToken struct {
	done     func(error)
	deadline time.Time // zero: none
	size     int       // bytes of body
}

// newQueue returns a queue without a goroutine; the first event starts it.
func newQueue(g *Gateway, uid id.QueueUID) *Queue {
	key := quorumq.EnqueuerKey{Node: g.cfg.Node, Epoch: g.cfg.Epoch}
	q := &Queue{
		g: g, uid: uid,
		room: make(chan struct{}),
		// Enqueue keeps the window, so that what it took always has a place here.
		publisher: session.NewPublisher[publishToken](key, session.Limits{
			WindowMessages: math.MaxInt, WindowBytes: math.MaxInt64,
		}),
		consumers: map[uint64]*Consumer{},
	}
	if r, ok := g.cfg.Views.View().QueueByUID(uid); ok && r.DrainDeleting > 0 {
		q.drainDeletes()
	}
	q.looked.L = &q.mu
	q.alarm.ring = func() { q.event(func(i *inbox) { i.tick = true }) }
	return q
}

// UID returns the queue's UID.
func (q *Queue) UID() id.QueueUID { return q.uid }

// Enqueue publishes a message to the queue. It waits while the window is full, until ctx ends, and
// returns disk.ErrNoSpace if too few of the queue's nodes have free disk space. If it returns nil,
// done is called once, from any goroutine, and must not block: with nil, or an error that wraps
// traffic.ErrRefused, traffic.ErrUnavailable (it is not, and will not be, stored),
// traffic.ErrUnknownOutcome, traffic.ErrNoSuchQueue or traffic.ErrClosed. The caller must not
// change the body until then.
func (q *Queue) Enqueue(ctx context.Context, m quorumq.NewMessage, body []byte, done func(error)) error {
	if err := q.g.cfg.Rooms.Admit(q.uid); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.awaitRoomLocked(ctx, len(body)); err != nil {
		return err
	}
	if err := q.g.cfg.Rooms.Admit(q.uid); err != nil { // it may have waited
		return err
	}
	q.publishLocked(m, body, done, q.deadline())
	q.publishedLocked()
	return nil
}

// awaitRoomLocked waits until there is room for bodies of a size. It lets mu go meanwhile.
func (q *Queue) awaitRoomLocked(ctx context.Context, size int) error {
	for q.ended == nil && q.fullLocked(size) {
		room := q.room
		q.waiters++
		q.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = fmt.Errorf("queue %s: too many messages wait for the queue's leader: %w", q.uid, ctx.Err())
		}
		q.mu.Lock()
		if err != nil {
			return err
		}
	}
	return q.ended
}

// publishLocked keeps the message until the queue's goroutine numbers it; q.mu is held.
func (q *Queue) publishLocked(m quorumq.NewMessage, body []byte, done func(error), deadline time.Time) {
	q.waiting++
	q.bytes += int64(len(body))
	q.publisher.Push(m, body, publishToken{done: done, deadline: deadline, size: len(body)})
}

// deadline is when a message that is handed over now is given up (PUB-5); zero: never.
func (q *Queue) deadline() time.Time {
	if d := q.g.cfg.ConfirmTimeout; d > 0 {
		return time.Now().Add(d)
	}
	return time.Time{}
}

// fullLocked reports whether a further body must wait; one alone always has room.
func (q *Queue) fullLocked(size int) bool {
	return q.waiting >= q.g.cfg.PublishWindow || q.waiting > 0 && q.bytes+int64(size) > q.g.cfg.Disks.Window()
}

// Transfer sends dead letters once; after an unknown outcome the caller may safely repeat it
// (DL-25). After disk.ErrNoSpace nothing was sent. When ctx ends, unsent dead letters are
// withdrawn: traffic.ErrUnavailable means that they were not and will not be sent.
func (q *Queue) Transfer(ctx context.Context, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	if err := q.g.cfg.Rooms.Admit(q.uid); err != nil {
		return quorumq.Reply{}, err
	}
	r, _, err := q.do(ctx, t, op{bodies: bodies, repeat: once, recall: true})
	return r, err
}

// Purge removes ready and delayed messages and the backlog, and returns how many of them no one
// will receive any more.
func (q *Queue) Purge(ctx context.Context) (uint64, error) {
	r, _, err := q.do(ctx, &quorumq.Purge{}, op{repeat: once})
	return r.Count, err
}

// Move moves ready messages to the command's destination (G-13), and returns how many. If the
// answer of a first attempt was lost, messages moved by that attempt do not count.
func (q *Queue) Move(ctx context.Context, m *quorumq.Move) (uint64, error) {
	r, _, err := q.do(ctx, m, op{})
	if err == nil && r.Code == quorumq.CodeTooMany {
		err = fmt.Errorf("queue %s: %w: wait until some of them have arrived", q.uid, traffic.ErrTooManyMoves)
	}
	return r.Count, err
}

// RetryDelayed makes up to limit delayed messages ready, in the order of their times; 0 means all
// that are delayed when it begins. It returns their number, with an error the number until then
// (DR-6).
func (q *Queue) RetryDelayed(ctx context.Context, limit uint64) (uint64, error) {
	done := uint64(0)
	for {
		ask := uint64(0)
		if limit > 0 {
			ask = limit - done
		}
		r, _, err := q.do(ctx, &quorumq.RetryDelayed{Limit: ask}, op{repeat: once})
		if err != nil {
			return done, err
		}
		done += r.Count
		if limit == 0 {
			limit = done + r.Left
		}
		if r.Count == 0 || done >= limit {
			return done, nil
		}
	}
}

// Renew counts as a use of the queue (QX-2).
func (q *Queue) Renew(ctx context.Context) error {
	_, _, err := q.do(ctx, &quorumq.Renew{}, op{})
	return err
}

// do sends a command in the queue's order, as o says, and waits for its answer.
func (q *Queue) do(ctx context.Context, cmd quorumq.Command, o op) (quorumq.Reply, *traffic.Delivery, error) {
	answers := make(chan opAnswer, 1)
	o.header = quorumq.AppendCommand(nil, cmd)
	o.deadline = time.Now().Add(q.g.cfg.CommandTimeout)
	o.done = func(a opAnswer) { answers <- a }
	q.post(&o)
	select {
	case a := <-answers:
		return a.reply, a.got, a.err
	case <-ctx.Done():
		if o.recall {
			q.event(func(in *inbox) { in.recalled = append(in.recalled, &o) })
			a := <-answers
			return a.reply, a.got, a.err
		}
		return quorumq.Reply{}, nil, fmt.Errorf("queue %s: %w: %w", q.uid, traffic.ErrUnknownOutcome, ctx.Err())
	}
}

// drainDeletes ends the consumers; what they have decided before goes first. What they hold the
// queue takes back by itself.
func (q *Queue) drainDeletes() {
	var out outbox
	q.mu.Lock()
	q.leaves = fmt.Errorf("queue %s: %w: its messages are dead-lettered", q.uid, traffic.ErrDrainDeleting)
	for _, c := range q.consumers {
		c.end(q.leaves, &out)
	}
	q.mu.Unlock()
	out.flush()
}

// end answers everything with err, for good. Of a queue that was drain-deleted, publishes that are
// not answered may have been dead-lettered, or come too late for that: nobody knows.
func (q *Queue) end(err error) {
	var out outbox
	q.mu.Lock()
	if q.ended != nil {
		q.mu.Unlock()
		return
	}
	q.ended = err
	unanswered := err
	if q.leaves != nil {
		unanswered = fmt.Errorf("queue %s: %w: it was deleted meanwhile", q.uid, traffic.ErrUnknownOutcome)
	}
	in := q.emptyLocked()
	q.publisher.Abandon(func(token publishToken) { q.confirmLocked(token, unanswered, &out) })
	q.ops.add(in.ops)
	q.ops.end(err, &out)
	for _, c := range q.consumers {
		c.end(err, &out)
	}
	clear(q.consumers)
	q.alarm.stop()
	close(q.room)
	q.mu.Unlock()
	out.flush()
}

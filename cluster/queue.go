package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
	"github.com/quorate/quorate/raftfsm"
)

// Limits of one gateway's end of one queue.
const (
	maxBatchMessages    = 512      // messages of one Enqueue
	maxBatchBytes       = 1 << 20  // bytes of bodies of one Enqueue
	maxWaitingBytes     = 64 << 20 // bytes of bodies that wait for their answer
	maxEnqueuesInFlight = 4        // Enqueues sent and not answered; more gather meanwhile
	maxOutcomesInFlight = 4        // commands of one consumer's decisions sent and not answered
	maxInboxBytes       = 4 << 20  // bytes of deliveries that came and were not looked at
	minRetryWait        = 10 * time.Millisecond
	maxRetryWait        = 250 * time.Millisecond
	tickEvery           = 250 * time.Millisecond // deadlines are looked at this often
	// GetLease is how long a message taken by Get waits for its decision (CT-1's default).
	GetLease = 30 * time.Minute
)

// Queue is this node's end of one queue, as gateway for its clients. What it is given is
// sent in order, and again after a change of leader, until it is answered (PUB-6).
// All methods may be called concurrently.
//
// All state belongs to mu. Events gather in the inbox; while there are any, one goroutine
// (run) works them off, sends what there is to send and calls back, both without mu.
type Queue struct {
	g   *gateway
	uid id.QueueUID

	mu      sync.Mutex
	running bool
	ended   error // set once: the queue is gone or the node stops
	leaves  error // why there are no consumers any more: the queue is being deleted
	inbox   inbox
	looked  sync.Cond     // the inbox was emptied
	room    chan struct{} // closed when the window has room again
	waiters int           // calls of Enqueue that may wait for room
	waiting int           // messages accepted by Enqueue and not answered
	bytes   int64         // of their bodies

	publisher *session.Publisher[publishToken]
	enqueues  int // in flight in this attempt
	ops       opLane
	consumers map[uint64]*Consumer // by session
	get       getSession

	target  id.NodeID     // where commands go; "" while nobody is known to lead
	hint    id.NodeID     // who leads as another node said
	turn    int           // rotates through the members while nobody knows
	attempt uint64        // grows whenever everything unanswered is sent again
	wait    time.Duration // before the next attempt; doubles
	blocked bool          // until retryAt
	retryAt time.Time
	alarm   alarm
}

// publishToken is what an unanswered message needs: whom to tell, and by when.
type publishToken struct {
	done     func(error)
	deadline time.Time // zero: none
	size     int       // bytes of body
}

type published struct {
	msg   quorumq.NewMessage
	body  []byte
	token publishToken
}

// flight is a command that has been sent and its place in the books.
type flight struct {
	queue   *Queue
	attempt uint64
	kind    flightKind
	first   quorumq.Seq // enqueue
	n       int         // enqueue
	op      *op
	cons    *Consumer // outcome, resume
	number  uint64    // outcome
}

type flightKind uint8

const (
	flightEnqueue flightKind = iota
	flightOp
	flightOutcome
	flightResume
)

// answer is what came back for a flight.
type answer struct {
	flight flight
	reply  quorumq.Reply
	got    *heldDelivery  // of a Get, with its body
	held   []heldDelivery // of a resume
	cut    bool           // of a resume: there is more
	err    error
}

type inbox struct {
	published  []published
	answers    []answer
	deliveries []heldDelivery
	bytes      int64 // of deliveries
	ops        []*op
	notices    []quorumq.Notice
	leader     *id.NodeID // news of the local member
	lost       []id.NodeID
	tick       bool
	wake       bool
}

func newQueue(g *gateway, uid id.QueueUID) *Queue {
	key := quorumq.EnqueuerKey{Node: g.c.cfg.Node, Epoch: g.c.epoch}
	q := &Queue{
		g: g, uid: uid,
		room: make(chan struct{}),
		// Enqueue keeps the window, so that what it took always has a place here.
		publisher: session.NewPublisher[publishToken](key, session.Limits{
			WindowMessages: math.MaxInt, WindowBytes: math.MaxInt64,
		}),
		consumers: map[uint64]*Consumer{},
	}
	if r, ok := g.c.View().QueueByUID(uid); ok && r.Dissolving > 0 {
		q.dissolves()
	}
	q.looked.L = &q.mu
	q.alarm.ring = func() { q.event(func(i *inbox) { i.tick = true }) }
	return q
}

// UID returns the queue's UID.
func (q *Queue) UID() id.QueueUID { return q.uid }

// Enqueue hands over a message. It waits while the window is full, until ctx ends, and
// returns ErrNoSpace if too few of the queue's nodes have room. If it returns nil, done is
// called once, from any goroutine, and must not block: with nil, or
// an error that wraps ErrRefused, ErrUnavailable (it is not, and will not be, stored),
// ErrUnknownOutcome, ErrNoSuchQueue or ErrClosed. The body must not change until then.
func (q *Queue) Enqueue(ctx context.Context, m quorumq.NewMessage, body []byte, done func(error)) error {
	if err := q.g.c.disks.admit(q.uid); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.awaitRoomLocked(ctx, len(body)); err != nil {
		return err
	}
	q.publishLocked(m, body, done, q.deadline())
	q.startLocked()
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

func (q *Queue) publishLocked(m quorumq.NewMessage, body []byte, done func(error), deadline time.Time) {
	q.waiting++
	q.bytes += int64(len(body))
	t := publishToken{done: done, deadline: deadline, size: len(body)}
	q.inbox.published = append(q.inbox.published, published{msg: m, body: body, token: t})
}

// deadline is when a message that is handed over now is given up (PUB-5); zero: never.
func (q *Queue) deadline() time.Time {
	if d := q.g.c.cfg.ConfirmTimeout; d > 0 {
		return time.Now().Add(d)
	}
	return time.Time{}
}

// fullLocked tells whether a further body must wait; one alone always has room.
func (q *Queue) fullLocked(size int) bool {
	return q.waiting >= q.g.c.cfg.PublishWindow || q.waiting > 0 && q.bytes+int64(size) > maxWaitingBytes
}

// Transfer hands over dead letters once; an unknown outcome is the caller's to repeat,
// which is safe (DL-25). ErrNoSpace: nothing was handed over.
func (q *Queue) Transfer(ctx context.Context, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	if err := q.g.c.disks.admit(q.uid); err != nil {
		return quorumq.Reply{}, err
	}
	r, _, err := q.do(ctx, t, op{bodies: bodies, repeat: once})
	return r, err
}

// Purge removes ready messages and the backlog, and returns how many.
func (q *Queue) Purge(ctx context.Context) (uint64, error) {
	r, _, err := q.do(ctx, &quorumq.Purge{}, op{repeat: once})
	return r.Count, err
}

// Move takes ready messages off the queue, to where the command says (G-13), and returns how
// many. Where the answer of a first try was lost, those that it had taken do not count.
func (q *Queue) Move(ctx context.Context, m *quorumq.Move) (uint64, error) {
	r, _, err := q.do(ctx, m, op{})
	if err == nil && r.Code == quorumq.CodeTooMany {
		err = fmt.Errorf("queue %s: %w: wait until some of them have arrived", q.uid, ErrTooManyMoves)
	}
	return r.Count, err
}

// RetryDelayed makes up to limit of the delayed messages ready, those that are due first; 0
// stands for all that are delayed when it begins. It returns how many; with an error that
// is how many were until then (DR-6).
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
func (q *Queue) do(ctx context.Context, cmd quorumq.Command, o op) (quorumq.Reply, *heldDelivery, error) {
	answers := make(chan opAnswer, 1)
	o.header = quorumq.AppendCommand(nil, cmd)
	o.deadline = time.Now().Add(q.g.c.cfg.CommandTimeout)
	o.done = func(a opAnswer) { answers <- a }
	q.post(&o)
	select {
	case a := <-answers:
		return a.reply, a.got, a.err
	case <-ctx.Done():
		return quorumq.Reply{}, nil, fmt.Errorf("queue %s: %w: %w", q.uid, ErrUnknownOutcome, ctx.Err())
	}
}

// The following bring events from other goroutines; none blocks but delivered.

func (q *Queue) post(o *op) {
	q.mu.Lock()
	if err := q.ended; err != nil {
		q.mu.Unlock()
		o.done(opAnswer{err: err})
		return
	}
	q.inbox.ops = append(q.inbox.ops, o)
	q.startLocked()
	q.mu.Unlock()
}

func (q *Queue) answered(a answer) {
	q.event(func(in *inbox) { in.answers = append(in.answers, a) })
}

// delivered waits while the inbox is full of deliveries. Looking at them takes no time, but
// whoever brings them may be faster.
func (q *Queue) delivered(ds []heldDelivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ended == nil && q.inbox.bytes > maxInboxBytes {
		q.looked.Wait()
	}
	if q.ended != nil {
		return
	}
	q.inbox.deliveries = append(q.inbox.deliveries, ds...)
	for i := range ds {
		q.inbox.bytes += ds[i].size()
	}
	q.startLocked()
}

func (q *Queue) noticed(n quorumq.Notice) {
	q.event(func(in *inbox) { in.notices = append(in.notices, n) })
}

func (q *Queue) led(leader id.NodeID) {
	q.event(func(in *inbox) { in.leader = &leader })
}

func (q *Queue) lostLink(n id.NodeID) {
	q.event(func(in *inbox) { in.lost = append(in.lost, n) })
}

func (q *Queue) wake() { q.event(func(in *inbox) { in.wake = true }) }

func (q *Queue) event(add func(*inbox)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended != nil {
		return
	}
	add(&q.inbox)
	q.startLocked()
}

func (q *Queue) startLocked() {
	if !q.running {
		q.running = true
		go q.run()
	}
}

// emptyLocked takes what is in the inbox.
func (q *Queue) emptyLocked() inbox {
	in := q.inbox
	q.inbox = inbox{}
	if in.bytes > maxInboxBytes {
		q.looked.Broadcast()
	}
	return in
}

// run works off the inbox until it is empty.
func (q *Queue) run() {
	var t turn
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		in := q.emptyLocked()
		more := in.any()
		if more && q.ended == nil {
			q.take(in, &t)
			q.pump(&t)
			q.armLocked()
		}
		if !more && t.empty() {
			q.running = false
			return
		}
		q.mu.Unlock()
		t.flush()
		q.mu.Lock()
	}
}

func (in *inbox) any() bool {
	return len(in.published)+len(in.answers)+len(in.deliveries)+len(in.ops)+len(in.notices)+len(in.lost) > 0 ||
		in.leader != nil || in.tick || in.wake
}

// turn gathers what a pass over the inbox wants done without mu.
type turn struct {
	sends     []func()
	confirmed []confirmation
	calls     []func()
}

// confirmation is an answer to Enqueue; there are many, so that they are no closures.
type confirmation struct {
	done func(error)
	err  error
}

func (t *turn) empty() bool { return len(t.sends)+len(t.confirmed)+len(t.calls) == 0 }

func (t *turn) flush() {
	for i, f := range t.sends {
		f()
		t.sends[i] = nil
	}
	for i, c := range t.confirmed {
		c.done(c.err)
		t.confirmed[i] = confirmation{}
	}
	for i, f := range t.calls {
		f()
		t.calls[i] = nil
	}
	t.sends, t.confirmed, t.calls = t.sends[:0], t.confirmed[:0], t.calls[:0]
}

func (q *Queue) take(in inbox, t *turn) {
	for i := range in.published {
		p := &in.published[i]
		q.publisher.Push(p.msg, p.body, p.token)
	}
	q.ops.add(in.ops)
	for i := range in.answers {
		q.takeAnswer(&in.answers[i], t)
	}
	for _, n := range in.lost {
		if n == q.target {
			q.retryLocked("", false)
		}
	}
	if in.leader != nil && *in.leader != q.target {
		q.retryLocked(*in.leader, *in.leader != "")
	}
	q.takeDeliveries(in.deliveries, t)
	for _, n := range in.notices {
		q.takeNotice(n, t)
	}
	if in.wake && q.target == "" {
		q.blocked = false
	}
	if in.tick {
		q.alarm.rang()
		if q.blocked && !time.Now().Before(q.retryAt) {
			q.blocked = false
		}
		q.expireLocked(t)
	}
}

// takeAnswer enters an answer in the books; success counts whatever attempt it is of.
func (q *Queue) takeAnswer(a *answer, t *turn) {
	f := &a.flight
	current := f.attempt == q.attempt
	if current && f.kind == flightEnqueue {
		q.enqueues--
	}
	if current && f.kind == flightOutcome {
		f.cons.inFlight--
	}
	if a.err != nil {
		q.takeFailure(a, current, t)
		return
	}
	if current {
		q.wait = 0
	}
	switch f.kind {
	case flightEnqueue:
		q.takeEnqueued(f, a.reply, t)
	case flightOp:
		if c := f.op.opens; c != nil && !f.op.closed {
			c.opened(a.reply, f.op.uncertain, t)
		}
		q.ops.answer(f.op, opAnswer{reply: a.reply, got: a.got}, t)
	case flightOutcome:
		f.cons.takeOutcome(f.number, a.reply, t)
	case flightResume:
		if a.reply.Code == quorumq.CodeUnknownConsumer {
			f.cons.gone(t)
			return
		}
		f.cons.takeHeld(a.held, a.reply.LastMsgID, a.cut, t)
	}
}

func (q *Queue) takeEnqueued(f *flight, r quorumq.Reply, t *turn) {
	now := time.Time{}
	q.publisher.Answer(f.first, f.n, r, func(token publishToken, accepted bool) {
		var err error
		if !accepted {
			if now.IsZero() {
				now = time.Now()
			}
			err = q.refusal(token, now)
		}
		q.confirmLocked(token, err, t)
	})
	if code := q.publisher.Failed(); code != quorumq.CodeOK {
		err := fmt.Errorf("queue %s: %w: the queue refused this node's stream (code %d); restart the node", q.uid, ErrUnknownOutcome, code)
		q.publisher.Abandon(func(token publishToken) { q.confirmLocked(token, err, t) })
	}
}

// confirmLocked answers for a message, which makes room for others.
func (q *Queue) confirmLocked(token publishToken, err error, t *turn) {
	q.waiting--
	q.bytes -= int64(token.size)
	t.confirmed = append(t.confirmed, confirmation{done: token.done, err: err})
	if q.waiters > 0 {
		q.waiters = 0
		close(q.room)
		q.room = make(chan struct{})
	}
}

// refusal tells a limit's refusal from a message that was given up (PUB-5).
func (q *Queue) refusal(token publishToken, now time.Time) error {
	if !token.deadline.IsZero() && !now.Before(token.deadline) {
		return fmt.Errorf("queue %s: %w within %s; the message is not stored", q.uid, ErrUnavailable, q.g.c.cfg.ConfirmTimeout)
	}
	return fmt.Errorf("queue %s: %w", q.uid, ErrRefused)
}

// takeFailure decides what an unanswered command means for everything behind it.
func (q *Queue) takeFailure(a *answer, current bool, t *turn) {
	var not *raftfsm.NotLeaderError
	definite := errors.As(a.err, &not) || errors.Is(a.err, raftfsm.ErrBusy) ||
		errors.Is(a.err, raftfsm.ErrStopped) || errors.Is(a.err, ErrNoSuchQueue)
	if a.flight.kind == flightOp {
		q.ops.failed(a.flight.op, definite, current, a.err, q.uid, t)
	}
	if !current || errors.Is(a.err, errRefusedForGood) {
		return
	}
	switch {
	case not != nil && not.Leader != "" && not.Leader != q.target:
		q.retryLocked(not.Leader, q.wait == 0)
	case errors.Is(a.err, raftfsm.ErrBusy):
		q.retryLocked(q.target, false)
	default:
		q.retryLocked("", false)
	}
}

// retryLocked begins a new attempt: everything unanswered is sent again, in order, to the
// node named or to whoever turns out to lead; at once, or after a wait that grows.
func (q *Queue) retryLocked(to id.NodeID, now bool) {
	q.attempt++
	q.enqueues = 0
	q.target = ""
	q.hint = to
	q.publisher.Rewind()
	q.ops.rewind()
	for _, c := range q.consumers {
		c.rewind()
	}
	if now {
		q.blocked = false
		q.wait = max(q.wait, minRetryWait)
		return
	}
	q.wait = min(max(2*q.wait, minRetryWait), maxRetryWait)
	q.blocked, q.retryAt = true, time.Now().Add(q.wait)
}

// expireLocked gives up what has waited too long (PUB-5, RE-5) and returns messages that
// nobody settled after a Get.
func (q *Queue) expireLocked(t *turn) {
	now := time.Now()
	q.publisher.Void(
		func(token publishToken) bool { return !token.deadline.IsZero() && !now.Before(token.deadline) },
		func(token publishToken, _ bool) { q.confirmLocked(token, q.refusal(token, now), t) })
	q.ops.expire(now, q.uid, t)
	q.get.expire(q, now)
}

// armLocked sets the alarm for whatever comes next.
func (q *Queue) armLocked() {
	now := time.Now()
	switch {
	case q.blocked:
		q.alarm.set(now, q.retryAt)
	case q.busyLocked():
		q.alarm.set(now, now.Add(tickEvery))
	default:
		if in := q.get.next(now); in > 0 {
			q.alarm.set(now, now.Add(in))
		}
	}
}

func (q *Queue) busyLocked() bool {
	if q.waiting > 0 || q.ops.len() > 0 {
		return true
	}
	for _, c := range q.consumers {
		if c.behind() || c.book.Unanswered() > 0 {
			return true
		}
	}
	return false
}

// dissolves ends the consumers; what they have decided before goes first. What they hold the
// queue takes back by itself.
func (q *Queue) dissolves() {
	var t turn
	q.mu.Lock()
	q.leaves = fmt.Errorf("queue %s: %w: its messages are dead-lettered", q.uid, ErrDissolving)
	for _, c := range q.consumers {
		c.end(q.leaves, &t)
	}
	q.mu.Unlock()
	t.flush()
}

// end answers everything with err, for good. Of a queue that dissolved, publishes that are
// not answered may have been dead-lettered, or come too late for that: nobody knows.
func (q *Queue) end(err error) {
	var t turn
	q.mu.Lock()
	if q.ended != nil {
		q.mu.Unlock()
		return
	}
	q.ended = err
	unanswered := err
	if q.leaves != nil {
		unanswered = fmt.Errorf("queue %s: %w: it was deleted meanwhile", q.uid, ErrUnknownOutcome)
	}
	in := q.emptyLocked()
	for i := range in.published {
		q.confirmLocked(in.published[i].token, unanswered, &t)
	}
	q.publisher.Abandon(func(token publishToken) { q.confirmLocked(token, unanswered, &t) })
	q.ops.add(in.ops)
	q.ops.end(err, &t)
	for _, c := range q.consumers {
		c.end(err, &t)
	}
	clear(q.consumers)
	q.alarm.stop()
	close(q.room)
	q.mu.Unlock()
	t.flush()
}

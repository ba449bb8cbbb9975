package session

import (
	"slices"

	"github.com/quorate/quorate/quorumq"
)

// Limits limits what a Publisher keeps. Zero fields stand for the defaults.
type Limits struct {
	// WindowMessages is how many messages may wait for their answer.
	WindowMessages int
	// WindowBytes is how many bytes of bodies may wait for their answer. A single larger body is accepted if nothing
	// else waits.
	WindowBytes int64
}

// The defaults of Limits.
const (
	DefaultWindowMessages       = 16384
	DefaultWindowBytes    int64 = 64 << 20
)

// Publisher numbers the messages of one enqueuer into one queue, and keeps each until the queue has answered it
// (PUB-6). T is the caller's token for a message, returned with the answer.
type Publisher[T any] struct {
	key    quorumq.EnqueuerKey
	limits Limits

	// items has the messages with the numbers first, first+1 and so on; items before head are gone.
	items []pending[T]
	head  int
	first quorumq.Seq // number of items[head]
	// send is the first number of the next batch. sent is the first number that was never in a batch.
	send, sent quorumq.Seq
	waiting    int // items without answer
	bytes      int64
	failed     quorumq.ReplyCode
}

// pending is a message that the queue has not answered yet.
type pending[T any] struct {
	msg      quorumq.NewMessage
	answered bool
	body     []byte
	token    T
}

// NewPublisher returns the publisher of an enqueuer that has not sent anything yet.
func NewPublisher[T any](key quorumq.EnqueuerKey, limits Limits) *Publisher[T] {
	if limits.WindowMessages <= 0 {
		limits.WindowMessages = DefaultWindowMessages
	}
	if limits.WindowBytes <= 0 {
		limits.WindowBytes = DefaultWindowBytes
	}
	return &Publisher[T]{key: key, limits: limits, first: 1, send: 1, sent: 1}
}

// Push accepts a message; it returns false if the window is full. The body must not change until the message is
// answered. The messages of a unit are pushed one after the other; none is sent before the last one is pushed.
func (p *Publisher[T]) Push(msg quorumq.NewMessage, body []byte, token T) bool {
	if p.waiting >= p.limits.WindowMessages {
		return false
	}
	if p.waiting > 0 && p.bytes+int64(len(body)) > p.limits.WindowBytes {
		return false
	}
	p.compact()
	p.items = append(p.items, pending[T]{msg: msg, body: body, token: token})
	p.waiting++
	p.bytes += int64(len(body))
	return true
}

// Pending returns how many messages wait for their answer.
func (p *Publisher[T]) Pending() int { return p.waiting }

// PendingBytes returns how many bytes of bodies wait for their answer.
func (p *Publisher[T]) PendingBytes() int64 { return p.bytes }

// HasUnsent reports whether NextBatch may return something.
func (p *Publisher[T]) HasUnsent() bool { return p.failed == quorumq.CodeOK && p.send < p.end() }

// Failed returns the code that ended this publisher, CodeOK if none did. After CodeFenced or CodeMalformed nothing more
// is sent or answered. The outcome of messages that still wait is unknown; Abandon returns their tokens.
func (p *Publisher[T]) Failed() quorumq.ReplyCode { return p.failed }

// NextBatch returns the next messages to send, in order; earlier batches may be in flight. It returns at most
// maxMessages and at most maxBytes of bodies, but always the first message, and the whole of a unit that comes first.
// The result belongs to the caller.
func (p *Publisher[T]) NextBatch(maxMessages, maxBytes int) (cmd quorumq.Enqueue, bodies [][]byte, ok bool) {
	if p.failed != quorumq.CodeOK {
		return cmd, nil, false
	}
	end := p.end()
	for p.send < end && p.at(p.send).answered {
		p.send++ // answered out of order: the queue is past it
	}
	n, size := 0, 0
	for s := p.send; s < end && n < max(maxMessages, 1); {
		count, bytes, whole := p.unit(s, end)
		if !whole || p.at(s).answered || n > 0 && (n+count > maxMessages || size+bytes > maxBytes) {
			break
		}
		size += bytes
		n += count
		s += quorumq.Seq(count)
	}
	if n == 0 {
		return cmd, nil, false
	}
	cmd = quorumq.Enqueue{
		Enqueuer: p.key,
		First:    p.send,
		Answered: p.first - 1,
		Messages: make([]quorumq.NewMessage, n),
	}
	bodies = make([][]byte, n)
	for i := range n {
		it := p.at(p.send + quorumq.Seq(i))
		cmd.Messages[i], bodies[i] = it.msg, it.body
	}
	p.send += quorumq.Seq(n)
	p.sent = max(p.sent, p.send)
	return cmd, bodies, true
}

// unit measures the unit that begins at s, usually one message, and reports whether the whole unit was pushed.
func (p *Publisher[T]) unit(s, end quorumq.Seq) (count, bytes int, whole bool) {
	for ; s < end; s++ {
		it := p.at(s)
		count++
		bytes += len(it.body)
		if !it.msg.Joined {
			return count, bytes, true
		}
	}
	return count, bytes, false
}

// Answer processes the queue's reply to the batch of n messages that starts at first. It calls done for each message
// that the reply decides, ascending. A reply may come late, twice, or after a Rewind.
func (p *Publisher[T]) Answer(first quorumq.Seq, n int, r quorumq.Reply, done func(token T, accepted bool)) {
	switch r.Code {
	case quorumq.CodeOK, quorumq.CodeDrainDeleting:
		p.decide(first, first+quorumq.Seq(n), r.Refused, done)
	case quorumq.CodeGap:
		// A batch was lost on its way. If this one has not been sent again yet, an earlier gap has rewound the
		// publisher already.
		if first < p.send {
			p.Rewind()
		}
	case quorumq.CodeFenced, quorumq.CodeMalformed, quorumq.CodeUnknownConsumer, quorumq.CodeExclusive, quorumq.CodeSingleActive,
		quorumq.CodeTooMany, quorumq.CodeNotHeld, quorumq.CodeSourceGone:
		p.failed = r.Code
	}
}

// decide answers the messages with the numbers from from to to, in order, each once.
func (p *Publisher[T]) decide(from, to quorumq.Seq, refused []quorumq.Seq, done func(T, bool)) {
	for s := max(from, p.first); s < min(to, p.sent); s++ {
		it := p.at(s)
		if it.answered {
			continue
		}
		_, no := slices.BinarySearch(refused, s)
		token := it.token
		p.forget(it)
		done(token, !no)
	}
	p.pop()
}

// forget marks a message as answered, and drops its body and token.
func (p *Publisher[T]) forget(it *pending[T]) {
	p.waiting--
	p.bytes -= int64(len(it.body))
	*it = pending[T]{answered: true}
}

// void replaces the message by a void.
func (it *pending[T]) void() {
	it.msg = it.msg.Void()
	it.body = nil
}

// pop moves the window past answered messages at its front.
func (p *Publisher[T]) pop() {
	for p.head < len(p.items) && p.items[p.head].answered {
		p.head++
		p.first++
	}
	p.send = max(p.send, p.first)
	p.sent = max(p.sent, p.first)
}

// Rewind makes NextBatch return everything unanswered again, in order. It is for a change of leader or a broken stream.
func (p *Publisher[T]) Rewind() { p.send = p.first }

// Void gives up the messages that which chooses, with their whole units (PUB-5, PUB-9). A message that was never sent
// and has no producer is reported as not accepted at once, and dropped. Any other message keeps its number as a void,
// which stores nothing. The answer to the void reports whether the queue had stored the message before (accepted) or
// never will. A producer's message may have been stored although it was never sent from here: through another node.
func (p *Publisher[T]) Void(which func(token T) bool, done func(token T, accepted bool)) {
	kept := p.head
	var chosen bool
	var until int // the end of the unit that chosen is about
	for i := p.head; i < len(p.items); i++ {
		it := p.items[i]
		if i >= until {
			chosen, until = p.chosen(i, which)
		}
		sent := i < p.head+int(p.sent-p.first)
		if chosen && !it.answered && it.msg.Size != quorumq.VoidSize {
			p.bytes -= int64(len(it.body))
			if !sent && it.msg.Producer == nil {
				p.waiting--
				done(it.token, false)
				continue
			}
			it.void()
		}
		p.items[kept] = it
		kept++
	}
	clear(p.items[kept:])
	p.items = p.items[:kept]
}

// chosen reports whether a message of the unit that begins at items[i] is given up, and returns where the unit ends.
func (p *Publisher[T]) chosen(i int, which func(token T) bool) (chosen bool, end int) {
	for ; i < len(p.items); i++ {
		it := &p.items[i]
		chosen = chosen || !it.answered && it.msg.Size != quorumq.VoidSize && which(it.token)
		if !it.msg.Joined {
			return chosen, i + 1
		}
	}
	return chosen, i
}

// Abandon empties the publisher, and reports the tokens of all messages that still waited, in order, and whether the
// queue may have the message. It may not if the message was never sent and has no producer, which may have sent it
// through another node.
func (p *Publisher[T]) Abandon(report func(token T, possible bool)) {
	items, sent := p.items[p.head:], int(p.sent-p.first)
	p.first, p.head, p.items = p.end(), 0, nil
	p.send, p.sent = p.first, p.first
	p.waiting, p.bytes = 0, 0
	for i := range items {
		if !items[i].answered {
			report(items[i].token, i < sent || items[i].msg.Producer != nil)
		}
	}
}

func (p *Publisher[T]) at(s quorumq.Seq) *pending[T] { return &p.items[p.head+int(s-p.first)] }

func (p *Publisher[T]) end() quorumq.Seq { return p.first + quorumq.Seq(len(p.items)-p.head) }

// compact reuses the memory at the front when growing would allocate.
func (p *Publisher[T]) compact() {
	if p.head == len(p.items) {
		p.items, p.head = p.items[:0], 0
		return
	}
	if len(p.items) == cap(p.items) && p.head >= len(p.items)/2 {
		n := copy(p.items, p.items[p.head:])
		clear(p.items[n:])
		p.items, p.head = p.items[:n], 0
	}
}

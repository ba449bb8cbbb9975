package session

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/quorate/quorate/quorumq"
)

type answers map[string]bool

func (a answers) done(token string, accepted bool) { a[token] = accepted }

func newPublisher(t *testing.T, n int, limits Limits) *Publisher[string] {
	t.Helper()
	p := NewPublisher[string](quorumq.EnqueuerKey{Node: "n1", Epoch: 1}, limits)
	for i := range n {
		if !p.Push(quorumq.NewMessage{Size: 10}, make([]byte, 10), fmt.Sprint(i+1)) {
			t.Fatalf("message %d does not fit", i+1)
		}
	}
	return p
}

// wantBatch takes a batch and compares its contents.
func wantBatch(t *testing.T, p *Publisher[string], maxMessages, maxBytes int, first quorumq.Seq, n int, answered quorumq.Seq) {
	t.Helper()
	c, bodies, ok := p.NextBatch(maxMessages, maxBytes)
	if ok != (n > 0) || c.First != first || len(c.Messages) != n || len(bodies) != n || c.Answered != answered {
		t.Fatalf("batch from %d with %d messages, %d bodies, answered %d; want %d, %d, %d",
			c.First, len(c.Messages), len(bodies), c.Answered, first, n, answered)
	}
}

func wantAnswers(t *testing.T, got, want answers) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("answers %v, want %v", got, want)
	}
}

func TestPublisherWindow(t *testing.T) {
	p := newPublisher(t, 3, Limits{WindowMessages: 3})
	if p.Push(quorumq.NewMessage{}, nil, "4") {
		t.Error("a message above the window fits")
	}
	p = newPublisher(t, 2, Limits{WindowBytes: 25})
	if p.Push(quorumq.NewMessage{}, make([]byte, 10), "3") {
		t.Error("bytes above the window fit")
	}
	p = newPublisher(t, 0, Limits{WindowBytes: 5})
	if !p.Push(quorumq.NewMessage{}, make([]byte, 10), "1") {
		t.Error("a large message alone does not fit")
	}
	if p.Pending() != 1 || p.PendingBytes() != 10 {
		t.Errorf("%d messages, %d bytes pending", p.Pending(), p.PendingBytes())
	}
}

// PUB-6: batches in flight, answers out of order, refusals (LEN-4).
func TestPublisherAnswers(t *testing.T) {
	p := newPublisher(t, 7, Limits{})
	wantBatch(t, p, 2, 1000, 1, 2, 0)
	wantBatch(t, p, 100, 25, 3, 2, 0) // two fit into 25 bytes
	wantBatch(t, p, 100, 1, 5, 1, 0)  // one always fits
	got := answers{}
	p.Answer(3, 2, quorumq.Reply{Refused: []quorumq.Seq{4}}, got.done)
	wantAnswers(t, got, answers{"3": true, "4": false})
	p.Answer(3, 2, quorumq.Reply{}, func(token string, _ bool) { t.Errorf("%s is answered again", token) })
	wantBatch(t, p, 1, 1000, 6, 1, 0)
	p.Answer(1, 2, quorumq.Reply{}, got.done)
	wantBatch(t, p, 9, 1000, 7, 1, 4)
	wantBatch(t, p, 9, 1000, 0, 0, 0)
	if p.Pending() != 3 {
		t.Errorf("%d pending", p.Pending())
	}
	// An answer for more than was sent decides only what was sent.
	p = newPublisher(t, 3, Limits{})
	wantBatch(t, p, 1, 1000, 1, 1, 0)
	got = answers{}
	p.Answer(1, 3, quorumq.Reply{}, got.done)
	wantAnswers(t, got, answers{"1": true})
}

// PUB-6: after a rewind all messages without an answer are sent again, and those that have one are
// left out.
func TestPublisherRewind(t *testing.T) {
	p := newPublisher(t, 6, Limits{})
	wantBatch(t, p, 2, 1000, 1, 2, 0)
	wantBatch(t, p, 2, 1000, 3, 2, 0)
	wantBatch(t, p, 2, 1000, 5, 2, 0)
	p.Answer(3, 2, quorumq.Reply{}, answers{}.done)
	p.Rewind()
	wantBatch(t, p, 9, 1000, 1, 2, 0)
	wantBatch(t, p, 9, 1000, 5, 2, 0)
	wantBatch(t, p, 9, 1000, 0, 0, 0)
}

// A gap rewinds the publisher once, and not once for each batch that was on its way.
func TestPublisherGap(t *testing.T) {
	p := newPublisher(t, 6, Limits{})
	for first := quorumq.Seq(1); first <= 5; first += 2 {
		wantBatch(t, p, 2, 1000, first, 2, 0)
	}
	p.Answer(3, 2, quorumq.Reply{Code: quorumq.CodeGap, Next: 1}, nil)
	wantBatch(t, p, 2, 1000, 1, 2, 0)
	p.Answer(5, 2, quorumq.Reply{Code: quorumq.CodeGap, Next: 1}, nil)
	wantBatch(t, p, 2, 1000, 3, 2, 0)
	wantBatch(t, p, 2, 1000, 5, 2, 0)
}

// PUB-5: a message that was never sent can be refused at once, and one that was sent becomes a
// void.
func TestPublisherVoid(t *testing.T) {
	p := newPublisher(t, 6, Limits{})
	wantBatch(t, p, 3, 1000, 1, 3, 0)
	got := answers{}
	p.Void(func(token string) bool { return token != "1" && token != "5" }, got.done)
	wantAnswers(t, got, answers{"4": false, "6": false})
	if p.Pending() != 4 || p.PendingBytes() != 20 {
		t.Errorf("%d messages, %d bytes pending", p.Pending(), p.PendingBytes())
	}
	p.Rewind()
	c, bodies, _ := p.NextBatch(9, 1000)
	var sizes []uint32
	for i, m := range c.Messages {
		sizes = append(sizes, m.Size)
		if m.Size == quorumq.VoidSize && len(bodies[i]) > 0 {
			t.Errorf("void %d has a body", i)
		}
	}
	if want := []uint32{10, quorumq.VoidSize, quorumq.VoidSize, 10}; !reflect.DeepEqual(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
	p.Answer(1, 4, quorumq.Reply{Refused: []quorumq.Seq{3}}, got.done)
	wantAnswers(t, got, answers{"1": true, "2": true, "3": false, "4": false, "5": true, "6": false})
}

// A message with a producer's number may have been stored through another node before it was sent
// from here, so only the queue knows its outcome (PUB-5).
func TestPublisherVoidOfProducer(t *testing.T) {
	p := NewPublisher[string](quorumq.EnqueuerKey{Node: "n1", Epoch: 1}, Limits{})
	producer := &quorumq.ProducerID{7}
	for i, token := range []string{"1", "2", "3"} {
		p.Push(quorumq.NewMessage{Size: 3, Producer: producer, ProducerSeq: uint64(i) + 1}, []byte("abc"), token)
	}
	got := answers{}
	p.Void(func(token string) bool { return token != "3" }, got.done)
	wantAnswers(t, got, answers{})
	if p.Pending() != 3 || p.PendingBytes() != 3 {
		t.Errorf("%d messages, %d bytes pending", p.Pending(), p.PendingBytes())
	}
	c, _, _ := p.NextBatch(9, 1000)
	want := []quorumq.NewMessage{
		{Size: quorumq.VoidSize, TTLMs: quorumq.Unlimited, Producer: producer, ProducerSeq: 1},
		{Size: quorumq.VoidSize, TTLMs: quorumq.Unlimited, Producer: producer, ProducerSeq: 2},
		{Size: 3, Producer: producer, ProducerSeq: 3},
	}
	if !reflect.DeepEqual(c.Messages, want) {
		t.Errorf("sends %+v, want %+v", c.Messages, want)
	}
	// The queue had the first one already.
	p.Answer(1, 3, quorumq.Reply{Refused: []quorumq.Seq{2}}, got.done)
	wantAnswers(t, got, answers{"1": true, "2": false, "3": true})
	if p.Pending() != 0 || p.PendingBytes() != 0 {
		t.Errorf("%d messages, %d bytes pending", p.Pending(), p.PendingBytes())
	}
}

func TestPublisherFenced(t *testing.T) {
	p := newPublisher(t, 3, Limits{})
	wantBatch(t, p, 1, 1000, 1, 1, 0)
	p.Answer(1, 1, quorumq.Reply{Code: quorumq.CodeFenced}, nil)
	if p.Failed() != quorumq.CodeFenced {
		t.Errorf("failed with %v", p.Failed())
	}
	wantBatch(t, p, 9, 1000, 0, 0, 0)
	var left []string
	p.Abandon(func(token string, _ bool) { left = append(left, token) })
	if want := []string{"1", "2", "3"}; !reflect.DeepEqual(left, want) || p.Pending() != 0 || p.PendingBytes() != 0 {
		t.Errorf("abandoned %v, %d pending", left, p.Pending())
	}
}

// G2: what was never sent from here is not in the queue, unless its producer may have sent it through another node.
func TestPublisherAbandoned(t *testing.T) {
	p := newPublisher(t, 2, Limits{})
	wantBatch(t, p, 1, 1000, 1, 1, 0)
	p.Rewind() // a message stays sent when it is to be sent again
	named := quorumq.NewMessage{Size: 1, TTLMs: quorumq.Unlimited, Producer: &quorumq.ProducerID{1}, ProducerSeq: 1}
	p.Push(named, []byte("x"), "named")
	got := map[string]bool{}
	p.Abandon(func(token string, possible bool) { got[token] = possible })
	if want := map[string]bool{"1": true, "2": false, "named": true}; !reflect.DeepEqual(got, want) {
		t.Errorf("the queue may have %v, want %v", got, want)
	}
}

// BenchmarkPublisher takes messages from Push to their answer, 64 in a batch.
func BenchmarkPublisher(b *testing.B) {
	p := NewPublisher[int](quorumq.EnqueuerKey{Node: "n1", Epoch: 1}, Limits{})
	body := make([]byte, 1024)
	done := func(int, bool) {}
	b.ReportAllocs()
	for n := 0; n < b.N; n += 64 {
		for i := range 64 {
			p.Push(quorumq.NewMessage{Size: 1024, TTLMs: quorumq.Unlimited}, body, i)
		}
		c, _, _ := p.NextBatch(64, 1<<20)
		p.Answer(c.First, len(c.Messages), quorumq.Reply{}, done)
	}
}

// pushUnits pushes units with these numbers of messages; the messages are named 1, 2, ...
func pushUnits(t *testing.T, p *Publisher[string], sizes ...int) {
	t.Helper()
	n := p.Pending()
	for _, size := range sizes {
		for i := range size {
			n++
			if !p.Push(quorumq.NewMessage{Size: 10, Joined: i < size-1}, make([]byte, 10), fmt.Sprint(n)) {
				t.Fatalf("message %d does not fit", n)
			}
		}
	}
}

// PUB-9: a unit is in one batch, however large it is, and in none before it is complete.
func TestPublisherUnits(t *testing.T) {
	p := newPublisher(t, 0, Limits{})
	pushUnits(t, p, 1, 3, 5, 1, 1)
	for range 2 { // the same again after a change of leader
		wantBatch(t, p, 3, 1000, 1, 1, 0) // no room for the unit of 3
		wantBatch(t, p, 3, 1000, 2, 3, 0)
		wantBatch(t, p, 3, 1000, 5, 5, 0) // more than a batch may have
		wantBatch(t, p, 3, 1000, 10, 2, 0)
		p.Rewind()
	}
	wantBatch(t, p, 10, 39, 1, 1, 0) // in bytes
	wantBatch(t, p, 10, 80, 2, 8, 0)
	if !p.Push(quorumq.NewMessage{Size: 10, Joined: true}, make([]byte, 10), "12") {
		t.Fatal("no room")
	}
	wantBatch(t, p, 10, 1000, 10, 2, 0)
	wantBatch(t, p, 10, 1000, 0, 0, 0) // the rest of the unit is not there yet
	if !p.Push(quorumq.NewMessage{Size: 10}, make([]byte, 10), "13") {
		t.Fatal("no room")
	}
	wantBatch(t, p, 10, 1000, 12, 2, 0)
}

// PUB-5, PUB-9: a client that gives up one message of a unit gives up the whole unit.
func TestPublisherVoidsUnits(t *testing.T) {
	p := newPublisher(t, 0, Limits{})
	pushUnits(t, p, 2, 3, 1, 2)
	wantBatch(t, p, 5, 1000, 1, 5, 0)
	got := answers{}
	p.Void(func(token string) bool { return token == "4" || token == "8" }, got.done)
	wantAnswers(t, got, answers{"7": false, "8": false}) // never sent
	p.Rewind()
	c, _, _ := p.NextBatch(10, 1000)
	var voids []quorumq.Seq
	for i, m := range c.Messages {
		if m.Size == quorumq.VoidSize {
			voids = append(voids, c.First+quorumq.Seq(i))
		}
		if joined := i == 0 || i == 2 || i == 3; m.Joined != joined {
			t.Errorf("message %d: joined %t", i+1, m.Joined)
		}
	}
	if fmt.Sprint(voids) != "[3 4 5]" || len(c.Messages) != 6 {
		t.Errorf("voids %v of %d messages", voids, len(c.Messages))
	}
}

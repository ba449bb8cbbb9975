package workload

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Producers is the workload of publishers that name themselves and number their messages. They end
// without a word, start again under the same name, and publish what was not answered once more under
// its numbers: each message is stored once, in order (PUB-6).
func Producers() Kind {
	return Kind{
		Name: "producers", Protocols: []string{overGRPC}, Rate: 60,
		Does: "named publishers that crash, and publish again under the same numbers",
		New:  func(w *World) Workload { return &producers{base{World: w}} },
	}
}

const (
	producersAtOnce = 3
	producerLife    = time.Second // about
	// producerSpan bounds how far a producer is ahead of its oldest unanswered message.
	producerSpan = 300
)

// producers is the workload of Producers.
type producers struct{ base }

// Prepare implements Workload.
func (p *producers) Prepare(ctx context.Context) error {
	q := p.Queue("q")
	p.drains = []string{q}
	for n := range producersAtOnce {
		class := []Class{GRPCAll, GRPCOne}[n%2]
		j := &journal{World: p.World, queue: q, class: class, index: n, rate: max(1, p.Rate/producersAtOnce), base: 1}
		_, _ = rand.Read(j.name[:]) // never fails
		p.players.other(j.run)
	}
	p.players.consumer(p.class(0), &Consumer{Queue: q})
	return p.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Ordered: true})
}

// thatCrash is why a producer's pauses say nothing of a single fault: each life that ends before its leader is found again
// adds to them.
const thatCrash = "that crash"

// journal is what a producer keeps on disk, so to say: its name, and which numbers are answered.
type journal struct {
	*World
	queue       string
	class       Class
	index, rate int
	name        [16]byte
	number      int // of the publisher

	mu       sync.Mutex
	base     uint64          // below it all are answered
	next     uint64          // of the first number that was never used
	answered map[uint64]bool // above base
}

// run lets the producer live and crash until publishing ends, and then live until all is answered.
func (j *journal) run(ctx, publishing context.Context) error {
	j.number, j.next, j.answered = j.History.Publisher(), 1, map[uint64]bool{}
	random := j.random(j.index)
	begin := time.Now()
	for publishing.Err() == nil {
		living, cancel := context.WithTimeout(publishing, producerLife/2+time.Duration(random.Int64N(int64(producerLife))))
		err := j.live(ctx, living, begin)
		cancel()
		if err != nil {
			return err
		}
	}
	settling, cancel := context.WithTimeout(ctx, j.Settle)
	defer cancel()
	return j.last(settling)
}

// open starts the producer: it publishes again what is open, and all after it.
func (j *journal) open(ctx context.Context) (*client.Client, *client.Publisher, error) {
	c, err := client.New(j.Cluster.Dial(j.ids()...))
	if err != nil {
		return nil, nil, err
	}
	j.mu.Lock()
	first, next := j.base, j.next
	j.mu.Unlock()
	p, err := c.Publisher(client.PublisherConfig{Producer: j.name[:], First: first, MaxInFlight: 2 * producerSpan})
	for id := first; err == nil && id < next; id++ {
		err = j.publish(ctx, p, id, true)
	}
	if err != nil {
		c.Close()
	}
	return c, p, err
}

// ids returns the nodes that the producer knows; none stands for all.
func (j *journal) ids() []string {
	if j.class != GRPCOne {
		return nil
	}
	return []string{j.known(j.class, j.index)[0].ID}
}

// live is one life: it publishes until living ends, and then loses all that it did not write down.
func (j *journal) live(ctx, living context.Context, begin time.Time) error {
	c, p, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		j.mu.Lock()
		id, open := j.next, j.next-j.base
		j.mu.Unlock()
		if wait.For(living, time.Duration(id)*time.Second/time.Duration(j.rate)-time.Since(begin)) != nil {
			return nil
		}
		if open >= producerSpan {
			if wait.For(living, redialEvery) != nil {
				return nil
			}
			continue
		}
		j.mu.Lock()
		j.next++
		j.mu.Unlock()
		if err := j.publish(ctx, p, id, false); err != nil {
			return err
		}
	}
}

// last is the life in which all is answered.
func (j *journal) last(ctx context.Context) error {
	c, p, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := p.Flush(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// publish publishes a message, again or for the first time.
func (j *journal) publish(ctx context.Context, p *client.Publisher, id uint64, again bool) error {
	sent := j.History.Now()
	j.History.Add(history.Event{
		Kind: history.Published, Client: j.class.apart(thatCrash), Publisher: j.number, ID: id, Queues: []string{j.queue}, Resend: again,
	})
	m := post{key: j.queue}
	body := EncodeID(history.Message{Publisher: j.number, ID: id}, bodyBytes)
	return p.PublishAsync(ctx, m.grpc(j.VHost, body), func(_ client.Result, err error) { j.answer(id, sent, err) })
}

// answer records an answer. That of a crash is no answer; one that came before is not recorded again, unless it
// differs now.
func (j *journal) answer(id uint64, sent time.Duration, err error) {
	if errors.Is(err, client.ErrClosed) {
		return
	}
	e := history.Event{Kind: outcomeOf(err), Client: j.class.apart(thatCrash), Publisher: j.number, ID: id, Sent: sent}
	if err != nil {
		e.Note = err.Error()
	}
	j.mu.Lock()
	was := id < j.base || j.answered[id]
	j.answered[id] = true
	for j.answered[j.base] {
		delete(j.answered, j.base)
		j.base++
	}
	j.mu.Unlock()
	if !was || e.Kind != history.Confirmed {
		j.History.Add(e)
	}
}

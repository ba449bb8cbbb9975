package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// NewQueues is the workload of queues that are declared all the time, and of publishers at every node that use them
// as soon as no node may still answer that they do not exist: a confirm means that a message is stored, also at a
// node that was away when the queue was created (EX-16).
func NewQueues() Kind {
	return Kind{
		Name: "new-queues", Protocols: []string{overGRPC, overAMQP}, Rate: 30,
		Does: "queues that are declared all the time, and used a little later through every node",
		New:  func(w *World) Workload { return &newQueues{base: base{World: w}} },
	}
}

const (
	newEvery = 2500 * time.Millisecond // between two queues
	// newAfter is how long after its declare a queue is used: a second more than timeouts.catalog_staleness has by
	// default. Until then a node may confirm a message without routing it there (EX-15).
	newAfter = 6 * time.Second
	newUsed  = 3 * time.Second // that it is published to
	// newLinger is how long after an unknown outcome a queue stays at least: the message may come later.
	newLinger = 20 * time.Second
)

// newQueues is the workload of NewQueues. mu guards what is below it.
type newQueues struct {
	base
	fixed  string // is published to while no other queue is in use
	living sync.WaitGroup

	mu    sync.Mutex
	all   []*newQueue            // that are not deleted
	inUse []*newQueue            // of these
	sent  []map[uint64]*newQueue // what each publisher waits for
}

// newQueue is a queue that was declared while clients publish.
type newQueue struct {
	name    string
	open    int       // messages without an answer
	unknown time.Time // when the last answer came that the outcome is not known; zero: none did
}

// Prepare implements Workload.
func (x *newQueues) Prepare(ctx context.Context) error {
	x.fixed = x.Queue("fixed")
	x.drains = []string{x.fixed}
	for n := range 2 * len(x.Cluster.Nodes()) { // neighbours know different nodes
		class := GRPCOne
		if n%2 == 1 && x.hasAMQP() {
			class = AMQPOne
		}
		x.sent = append(x.sent, map[uint64]*newQueue{})
		x.players.publisher(class, &Publisher{
			Queue: x.fixed,
			post: func(id uint64) post {
				q := x.choose(n, id)
				return post{key: q, queues: []string{q}}
			},
			fates: func(e *history.Event) { x.answered(n, e) },
		})
	}
	x.players.consumer(x.class(0), &Consumer{Queue: x.fixed})
	x.players.other(x.declareNew)
	return x.declareOne(ctx, x.fixed)
}

func (x *newQueues) declareOne(ctx context.Context, name string) error {
	return x.declare(ctx, name, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Ordered: true})
}

// choose returns the queue for a message of a publisher.
func (x *newQueues) choose(publisher int, id uint64) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.inUse) == 0 {
		return x.fixed
	}
	q := x.inUse[id%uint64(len(x.inUse))]
	q.open++
	x.sent[publisher][id] = q
	return q.name
}

// answered records that the fate of a publisher's message is known, or never will be.
func (x *newQueues) answered(publisher int, e *history.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	q := x.sent[publisher][e.ID]
	if q == nil {
		return
	}
	delete(x.sent[publisher], e.ID)
	if q.open--; e.Kind == history.Unknown {
		q.unknown = time.Now()
	}
}

// declareNew declares queues until publishing ends. A declare that fails is no fault: its queue is not used.
func (x *newQueues) declareNew(ctx, publishing context.Context) error {
	defer x.living.Wait()
	for n := 1; ; n++ {
		asking, cancel := context.WithTimeout(ctx, churnTimeout)
		q := &newQueue{name: x.Queue(fmt.Sprintf("new%d", n))}
		err := x.declareOne(asking, q.name)
		cancel()
		if err != nil {
			x.Log("new-queues: %v", err)
		} else {
			x.mu.Lock()
			x.all = append(x.all, q)
			x.mu.Unlock()
			x.living.Go(func() { x.live(ctx, publishing, q, n) })
		}
		if wait.For(publishing, newEvery) != nil {
			return nil
		}
	}
}

// live uses a queue, waits until it is empty, and deletes it. When publishing ends it leaves the rest to Drain.
func (x *newQueues) live(ctx, publishing context.Context, q *newQueue, n int) {
	consuming, stop := context.WithCancel(ctx)
	go x.consume(consuming, q.name, n)
	if wait.For(publishing, newAfter) == nil {
		x.use(q, true)
		_ = wait.For(publishing, newUsed) // its end is looked at below
		x.use(q, false)
	}
	for !x.idle(publishing, q) {
		if wait.For(publishing, lookEvery) != nil {
			context.AfterFunc(ctx, stop) // it runs until all is drained
			return
		}
	}
	x.History.Add(history.Event{Kind: history.Drained, Queue: q.name})
	stop()
	x.mu.Lock()
	x.all = slices.DeleteFunc(x.all, func(o *newQueue) bool { return o == q })
	x.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, churnTimeout)
	defer cancel()
	if _, err := x.Client.DeleteQueue(asking, client.DeleteQueueRequest{VHost: x.VHost, Name: q.name}); err != nil {
		x.Log("new-queues: %v", err)
	}
}

// use begins or ends the use of a queue by publishers.
func (x *newQueues) use(q *newQueue, is bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if is {
		x.inUse = append(x.inUse, q)
		return
	}
	x.inUse = slices.DeleteFunc(x.inUse, func(o *newQueue) bool { return o == q })
}

// idle reports whether all that was published to a queue is answered and consumed, and nothing more will come.
func (x *newQueues) idle(ctx context.Context, q *newQueue) bool {
	x.mu.Lock()
	awaited := q.open > 0 || time.Since(q.unknown) < newLinger
	x.mu.Unlock()
	return !awaited && x.notEmpty(ctx, []string{q.name}) == nil
}

// consume consumes the nth queue over one protocol or the other. Its first attempt may meet a fault.
func (x *newQueues) consume(ctx context.Context, queue string, n int) {
	class := x.class(n % 2)
	c := &Consumer{
		Client: x.Client, History: x.History, Class: string(class), VHost: x.VHost, Queue: queue, Prefetch: prefetch, amqp: x.dialer(class, n),
	}
	for ctx.Err() == nil {
		if err := c.Run(ctx); err != nil {
			x.Log("new-queues: %v", err)
		}
		_ = wait.For(ctx, redialEvery) // ctx is looked at
	}
}

// Drain implements Workload.
func (x *newQueues) Drain(ctx context.Context) error {
	x.mu.Lock()
	for _, q := range x.all {
		x.drains = append(x.drains, q.name)
	}
	x.mu.Unlock()
	return x.base.Drain(ctx)
}

package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Resting is the workload of queues that are left alone until they hibernate, with messages or without, and are used again:
// bursts of messages come far apart, and consumers for moments between them. One queue has messages that expire while it
// hibernates, so that it has to wake by itself.
func Resting() Kind {
	return Kind{
		Name: "resting", Protocols: []string{overGRPC, overAMQP}, Rate: 20,
		Does: "queues that are left alone until they hibernate, and wake when they are used or their messages expire",
		New:  func(w *World) Workload { return &resting{base{World: w}} },
	}
}

// HibernateAfter is timeouts.hibernate of nodes that are made to run workloads on. A node looks at the queues that it leads
// four times within it, so they hibernate when they have rested for up to a quarter longer; and for up to four times as long
// if they were woken soon the last times.
const HibernateAfter = 2 * time.Second

const (
	restingQueues = 4 // besides the one whose messages expire
	// restFor is the time between two bursts, and between two visits of a consumer, about: whenever in between the other
	// comes, the queue rests for long enough before or after that.
	restFor  = 10 * HibernateAfter
	restStay = 500 * time.Millisecond
	// restTTL lets a queue hibernate before its messages expire: none does that has something to do within
	// HibernateAfter.
	restTTL  = 3 * HibernateAfter
	restLook = HibernateAfter / 2 // between checks whether queues hibernate
	// atRest is why pauses of publishers say nothing of a single fault: the first confirm after a rest has an election in it.
	atRest = "of queues at rest"
	// hibernatedMembers is the metric of a node's members that hibernate, whatever queue they are of.
	hibernatedMembers = `quorate_queue_members{state="hibernated"}`
)

// resting is the workload of Resting.
type resting struct{ base }

// Prepare implements Workload.
func (x *resting) Prepare(ctx context.Context) error {
	for n := range restingQueues {
		q := x.Queue(fmt.Sprintf("q%d", n+1))
		x.drains = append(x.drains, q)
		x.bursts(n, q)
		x.players.consumer(x.class(n+1), &Consumer{Queue: q, comes: &comings{stay: restStay, away: restFor, random: x.random(n)}})
		if err := x.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Ordered: true}); err != nil {
			return err
		}
	}
	fades, dead := x.Queue("fades"), x.Queue("dead")
	x.drains = append(x.drains, fades, dead)
	x.bursts(restingQueues, fades)
	x.players.consumer(x.class(0), &Consumer{Queue: dead}) // it stays: how late dead letters are is judged
	x.players.other(x.look)
	if err := x.declare(ctx, dead, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1}); err != nil {
		return err
	}
	arguments := deadLetters(dead, client.Table{"x-message-ttl": restTTL.Milliseconds()})
	return x.declare(ctx, fades, arguments, history.Queue{DeliveryLimit: -1, TTL: restTTL, DeadTo: dead})
}

// bursts adds the nth publisher. The time between its bursts is another one than that of others, by the seed.
func (x *resting) bursts(n int, queue string) {
	apart := (&comings{random: x.random(restingQueues + 1 + n)}).about(restFor)
	burst := max(1, int(apart.Seconds()*float64(x.Rate))/(restingQueues+1))
	x.players.publisher(x.class(n), &Publisher{Queue: queue, Apart: atRest, burst: burst, every: apart / time.Duration(burst)})
}

// look looks until publishing ends whether queues hibernate, and records what it saw: if none did, the workload has tried
// nothing. Nodes say how many members do, not of which queues.
func (x *resting) look(_, publishing context.Context) error {
	var most float64
	var unknown error
	answers := 0
	for wait.For(publishing, restLook) == nil {
		for _, n := range x.Cluster.Nodes() {
			members, err := target.Metric(publishing, x.Cluster, n.ID, hibernatedMembers)
			if err != nil { // it may be hit
				unknown = err
				continue
			}
			most, answers = max(most, members), answers+1
		}
	}
	e := history.Event{Kind: history.Bit, Queue: x.Prefix, Again: most > 0, Note: "did not bite: no queue hibernated"}
	switch {
	case most > 0:
		e.Note = fmt.Sprintf("up to %.0f members of queues hibernated at once on a node", most)
	case answers == 0:
		e.Note = fmt.Sprintf("not known: %v", unknown)
	}
	x.Log("resting: %s", e.Note)
	x.History.Add(e)
	return nil
}

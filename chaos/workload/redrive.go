package workload

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Redrive is the workload of operators who send dead letters back to where they died, and move some
// of them aside, while clients work: each message is in one queue at a time (G-13).
func Redrive() Kind {
	return Kind{
		Name: "redrive", Protocols: []string{overGRPC, overAMQP}, Rate: 30,
		Does: "dead letters that operators redrive and move, each once",
		New:  func(w *World) Workload { return &redrive{base: base{World: w}} },
	}
}

const (
	redriveEvery = 300 * time.Millisecond // about, for each of two operators
	asideLimit   = 3                      // messages that one move takes
	asideEvery   = 4                      // every so many jobs one moves, the others redrive
	discards     = 2                      // so often a message is discarded before it is acked
	jobTimeout   = 20 * time.Second
)

// redrive is the workload of Redrive.
type redrive struct {
	base
	work, dead, aside string
}

// Prepare implements Workload.
func (r *redrive) Prepare(ctx context.Context) error {
	r.work, r.dead, r.aside = r.Queue("work"), r.Queue("dead"), r.Queue("aside")
	r.drains = []string{r.work, r.dead, r.aside}
	for n := range 2 {
		r.players.publisher(r.class(n), &Publisher{Queue: r.work})
		r.players.consumer(r.class(n), &Consumer{Queue: r.work, Decide: r.decide})
		r.players.other(func(ctx, publishing context.Context) error { return r.operate(ctx, publishing, n) })
	}
	r.players.consumer(r.class(0), &Consumer{Queue: r.aside})
	spec := history.Queue{DeliveryLimit: -1, Moved: true, Family: r.Prefix}
	for _, q := range []string{r.aside, r.dead} {
		if err := r.declare(ctx, q, client.Table{"x-delivery-limit": -1}, spec); err != nil {
			return err
		}
	}
	return r.declare(ctx, r.work, deadLetters(r.dead, client.Table{"x-delivery-limit": -1}), spec)
}

// decide discards every third message until it has died often enough.
func (*redrive) decide(d *history.Event) history.Outcome {
	died := uint64(0)
	for _, x := range d.Deaths {
		died += x.Count
	}
	if d.ID%3 == 0 && died < discards {
		return history.Discard
	}
	return history.Ack
}

// operate redrives and moves until publishing ends, and then until nothing is left to redrive. Two
// operators take the same dead letters: each goes with one of them.
func (r *redrive) operate(ctx, publishing context.Context, operator int) error {
	random := r.random(operator)
	settling, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(publishing, func() { time.AfterFunc(r.Settle, cancel) })
	for n, empty := 0, 0; ; n++ {
		if wait.For(settling, redriveEvery/2+time.Duration(random.Int64N(int64(redriveEvery)))) != nil {
			return errors.New("workload: dead letters could not be redriven in time")
		}
		if publishing.Err() != nil {
			if r.empty(settling) {
				empty++
			} else {
				empty = 0
			}
			if empty == discards+1 { // what was on its way between two checks has died as often as it can
				return nil
			}
		}
		asking, cancel := context.WithTimeout(settling, jobTimeout)
		err := r.job(asking, n)
		cancel()
		if err != nil && client.ClassOf(err) != client.ResourceLocked { // the other operator's job runs
			r.Log("redrive: %v", err)
		}
	}
}

// empty reports whether neither queue that flows into the other holds anything.
func (r *redrive) empty(ctx context.Context) bool {
	for _, name := range []string{r.work, r.dead, r.work} {
		q, err := r.Client.GetQueue(ctx, client.QueueRef{VHost: r.VHost, Name: name})
		if err != nil || q.Stats == nil || q.Stats.Messages > 0 {
			return false
		}
	}
	return true
}

// job starts one, follows it, and asks for it by its id once more when it has ended. A node that is lost ends its
// jobs: the next job continues.
func (r *redrive) job(ctx context.Context, n int) error {
	var started client.StartedOperation
	var err error
	if n%asideEvery == asideEvery-1 {
		started, err = r.Client.MoveMessages(ctx, client.MoveMessagesRequest{
			Job: client.MessageJob{VHost: r.VHost, Queue: r.dead, Limit: asideLimit}, ToQueue: r.aside,
		})
	} else {
		started, err = r.Client.RedriveMessages(ctx, client.RedriveMessagesRequest{Job: client.MessageJob{VHost: r.VHost, Queue: r.dead}})
	}
	if err != nil || started.Operation == nil {
		return err
	}
	if _, err = r.Client.WatchOperation(ctx, started.Operation.ID, nil); err == nil {
		_, err = r.Client.Operation(ctx, started.Operation.ID)
	}
	return err
}

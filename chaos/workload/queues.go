package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// declare makes a queue and records what a checker must know of it.
func (w *World) declare(ctx context.Context, name string, arguments client.Table, spec history.Queue) error {
	if _, err := w.Client.DeclareQueue(ctx, client.Queue{VHost: w.VHost, Name: name, Arguments: arguments}); err != nil {
		return err
	}
	w.History.Add(history.Event{Kind: history.Declared, Queue: name, Spec: &spec})
	return nil
}

// lookEvery is the wait between checks of a queue that is not empty.
const lookEvery = 50 * time.Millisecond

// drained waits until consumers have emptied the queues, one after another, and records which
// are empty and what the others hold when ctx ends.
func (w *World) drained(ctx context.Context, queues ...string) {
	for _, name := range queues {
		for {
			left := w.notEmpty(ctx, []string{name})
			if left == nil {
				w.History.Add(history.Event{Kind: history.Drained, Queue: name})
				break
			}
			if wait.For(ctx, lookEvery) != nil {
				w.History.Add(*left)
				break
			}
		}
	}
}

// drainedLoop does what drained does for queues among which messages go round, up to so many rounds each. A look at one
// queue after another misses a message that moves on meanwhile; in so many looks in a row it is seen, or it was acked.
func (w *World) drainedLoop(ctx context.Context, rounds int, queues ...string) {
	for empty := 0; ; {
		left := w.notEmpty(ctx, queues)
		if empty++; left != nil {
			empty = 0
		}
		if empty == rounds {
			break
		}
		if wait.For(ctx, lookEvery) != nil {
			if left == nil {
				left = &history.Event{Kind: history.Left, Queue: queues[0], Note: "it was not looked at often enough"}
			}
			w.History.Add(*left)
			return
		}
	}
	for _, name := range queues {
		w.History.Add(history.Event{Kind: history.Drained, Queue: name})
	}
}

// notEmpty returns a Left event for the first queue that holds messages, or whose number of messages is unknown; nil:
// all are empty.
func (w *World) notEmpty(ctx context.Context, queues []string) *history.Event {
	for _, name := range queues {
		state, err := w.Client.GetQueue(ctx, client.QueueRef{VHost: w.VHost, Name: name})
		if err != nil || state.Stats == nil || state.Stats.Messages > 0 {
			return &history.Event{Kind: history.Left, Queue: name, Messages: state.Figures().Messages, Note: fmt.Sprint(err)}
		}
	}
	return nil
}

// deadLetters adds to a queue's arguments that it dead-letters at least once.
func deadLetters(to string, arguments client.Table) client.Table {
	arguments["x-overflow"] = "reject-publish"
	return deadLettersBy("at-least-once", to, arguments)
}

// deadLettersBy adds to a queue's arguments that it dead-letters by a strategy.
func deadLettersBy(strategy, to string, arguments client.Table) client.Table {
	arguments["x-dead-letter-exchange"], arguments["x-dead-letter-routing-key"] = "", to
	arguments["x-dead-letter-strategy"] = strategy
	return arguments
}

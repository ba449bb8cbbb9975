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

// drained waits until consumers have emptied the queues, one after another, and records which
// are empty and what the others hold when ctx ends.
func (w *World) drained(ctx context.Context, queues ...string) {
	for _, name := range queues {
		for {
			state, err := w.Client.GetQueue(ctx, client.QueueRef{VHost: w.VHost, Name: name})
			if err == nil && state.Stats != nil && state.Stats.Messages == 0 {
				w.History.Add(history.Event{Kind: history.Drained, Queue: name})
				break
			}
			if wait.For(ctx, 50*time.Millisecond) != nil {
				w.History.Add(history.Event{Kind: history.Left, Queue: name, Messages: state.Figures().Messages, Note: fmt.Sprint(err)})
				break
			}
		}
	}
}

// deadLetters adds to a queue's arguments that it dead-letters at least once.
func deadLetters(to string, arguments client.Table) client.Table {
	for name, value := range map[string]any{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	} {
		arguments[name] = value
	}
	return arguments
}

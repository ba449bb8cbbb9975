package run

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

const (
	// watchEvery is how often the leader of a queue is asked for, and so how exactly a history knows it.
	watchEvery = 200 * time.Millisecond
	// watchTimeout bounds an answer: one that takes longer does not count.
	watchTimeout = time.Second
)

// watchLeaders records who leads the queues, at each change, until ctx ends.
func watchLeaders(ctx context.Context, cfg Config, c *client.Client, queues []string) {
	var watching sync.WaitGroup
	for _, queue := range queues {
		watching.Go(func() {
			leader := "-" // nobody has looked
			for wait.For(ctx, watchEvery) == nil {
				asking, cancel := context.WithTimeout(ctx, watchTimeout)
				q, err := c.GetQueue(asking, client.QueueRef{VHost: cfg.VHost, Name: queue})
				cancel()
				if err != nil {
					q.Leader = ""
				}
				if q.Leader != leader && ctx.Err() == nil {
					leader = q.Leader
					cfg.History.Add(history.Event{Kind: history.Leader, Queue: queue, Node: leader})
				}
			}
		})
	}
	watching.Wait()
}

// Progress is the progress of a run.
type Progress struct {
	At, Left  time.Duration // since the history began, and of publishing
	Confirmed int           // so far
	// Rate is how many messages a second were confirmed since the last Progress.
	Rate    float64
	Faults  int      // so far
	Current []string // faults that last, as the history notes them
	// Pauses are the longest since the last Progress, in the order of their classes; those that go on count as long
	// as they have lasted.
	Pauses []Pause
}

// progressEvery is how often Config.Progress is called.
const progressEvery = time.Second

// reportProgress calls Config.Progress until ctx ends.
func reportProgress(ctx context.Context, cfg Config) {
	var p Progress
	var last time.Duration
	seen := 0
	open := map[int]string{}
	var order []int
	waits := newPauses()
	for wait.For(ctx, progressEvery) == nil {
		confirmed := p.Confirmed
		for _, e := range cfg.History.Since(seen) {
			seen++
			switch e.Kind {
			case history.Confirmed:
				p.Confirmed++
				waits.confirmed(&e)
			case history.Fault:
				p.Faults++
				open[e.Fault], order = e.Note, append(order, e.Fault)
			case history.Healed:
				delete(open, e.Fault)
			default:
			}
		}
		p.At, p.Current = cfg.History.Now(), nil
		p.Pauses = waits.look(p.At)
		for _, n := range order {
			if note, lasts := open[n]; lasts {
				p.Current = append(p.Current, note)
			}
		}
		p.Rate, p.Left = float64(p.Confirmed-confirmed)/max(0.001, (p.At-last).Seconds()), max(0, cfg.Length-p.At)
		last = p.At
		cfg.Progress(p)
	}
}

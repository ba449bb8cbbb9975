package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// RunConfig says what to do to a cluster. Zero values are the defaults.
type RunConfig struct {
	Cluster *Cluster // its nodes are ready
	Seed    uint64
	Length  time.Duration // of publishing; 0: 60 s
	Steps   []Step        // nil: Schedule(Seed, Length), or none with Meanwhile
	// Meanwhile, if set, runs while messages are published, which ends with it.
	Meanwhile func(context.Context) error
	Rate      int           // messages per second of each publisher; 0: 500
	Settle    time.Duration // for answers and for draining, after publishing; 0: 90 s
	Log       func(format string, args ...any)
	Queue     string // "": chaos; its dead letters go to Queue + ".dead"
	Prefetch  uint32 // 0: 200
}

const (
	publishers   = 3
	bodyBytes    = 256
	discardEvery = 20 // every so many messages one is discarded
)

func (c RunConfig) withDefaults() RunConfig {
	if c.Length == 0 {
		c.Length = time.Minute
	}
	if c.Steps == nil && c.Meanwhile == nil {
		c.Steps = Schedule(c.Seed, c.Length)
	}
	if c.Rate == 0 {
		c.Rate = 500
	}
	if c.Settle == 0 {
		c.Settle = 90 * time.Second
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	if c.Queue == "" {
		c.Queue = "chaos"
	}
	if c.Prefetch == 0 {
		c.Prefetch = 200
	}
	return c
}

// Run publishes, consumes and discards while members are hit by the schedule, drains the
// queues and returns the history. An error means that the run itself failed, not that a
// promise was broken.
func Run(ctx context.Context, cfg RunConfig) ([]Event, error) {
	cfg = cfg.withDefaults()
	c, err := client.Dial(ctx, client.Config{Addresses: cfg.Cluster.Addresses()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := declareWithDead(ctx, c, cfg.Queue); err != nil {
		return nil, err
	}
	history := NewHistory()
	consuming, stopConsuming := context.WithCancel(ctx)
	defer stopConsuming()
	var consumers sync.WaitGroup
	failures := make(chan error, publishers+4)
	main := &Consumer{
		Client: c, History: history, Queue: cfg.Queue, As: MainQueue, Prefetch: cfg.Prefetch,
		Discard: func(m Message) bool { return m.ID%discardEvery == 7 },
	}
	dead := &Consumer{Client: c, History: history, Queue: cfg.Queue + ".dead", As: DeadQueue, Prefetch: cfg.Prefetch}
	for _, x := range []*Consumer{main, dead} {
		consumers.Go(func() { failures <- x.Run(consuming) })
	}
	publishing, stopPublishing := context.WithTimeout(ctx, cfg.Length)
	defer stopPublishing()
	var working sync.WaitGroup
	for i := range publishers {
		p := &Publisher{Client: c, History: history, Number: i + 1, Queue: cfg.Queue, Size: bodyBytes, Rate: cfg.Rate}
		working.Go(func() { failures <- p.Run(publishing, cfg.Settle) })
	}
	working.Go(func() {
		n := &nemesis{cluster: cfg.Cluster, client: c, history: history, queue: cfg.Queue, log: cfg.Log}
		failures <- n.run(publishing, cfg.Steps)
	})
	if cfg.Meanwhile != nil {
		working.Go(func() {
			failures <- cfg.Meanwhile(publishing)
			stopPublishing()
		})
	}
	working.Wait()
	cfg.Log("publishing is over, draining")
	draining, cancel := context.WithTimeout(ctx, cfg.Settle)
	defer cancel()
	drain(draining, c, history, cfg.Queue)
	stopConsuming()
	consumers.Wait()
	close(failures)
	var errs []error
	for err := range failures {
		errs = append(errs, err)
	}
	return history.Events(), errors.Join(errs...)
}

// declareWithDead makes the queue and the queue of its dead letters, at least once.
func declareWithDead(ctx context.Context, c *client.Client, name string) error {
	if _, err := c.DeclareQueue(ctx, client.Queue{Name: name + ".dead"}); err != nil {
		return err
	}
	_, err := c.DeclareQueue(ctx, client.Queue{Name: name, Arguments: client.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name + ".dead",
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-delivery-limit": -1,
	}})
	return err
}

// drain waits until the consumers have emptied the queues and records which are empty.
// First the queue, then its dead letters: nothing flows the other way.
func drain(ctx context.Context, c *client.Client, history *History, queue string) {
	for _, q := range []struct{ name, as string }{{queue, MainQueue}, {queue + ".dead", DeadQueue}} {
		for {
			state, err := c.GetQueue(ctx, client.QueueRef{Name: q.name})
			if err == nil && state.Stats != nil && state.Stats.Messages == 0 {
				history.Add(Event{Kind: Drained, Queue: q.as})
				break
			}
			if !sleep(ctx, 50*time.Millisecond) {
				history.Add(Event{Kind: Healed, Note: fmt.Sprintf("%s holds %d messages at the end: %v", q.name, state.Figures().Messages, err)})
				break
			}
		}
	}
}

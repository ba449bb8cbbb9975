// Package run lets workloads and faults loose on a cluster at the same time, and returns the
// history of what happened.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Config is what to do to a cluster. Zero values are the defaults.
type Config struct {
	Cluster   target.Cluster  // its nodes are ready
	Workloads []workload.Kind // that run side by side; at least one
	Seed      uint64
	Length    time.Duration // of publishing; 0: 60 s
	Steps     []fault.Step  // in the order of At
	Faults    []fault.Kind  // what the steps name; nil: all
	// Meanwhile, if set, runs while messages are published, which ends with it. Without Steps
	// the history has it as one fault.
	Meanwhile func(context.Context) error
	Rate      int           // messages per second of each workload; 0: what each kind says
	Settle    time.Duration // for answers and for draining, after publishing; 0: 90 s
	// Enough, if set, is asked every few seconds about the events so far, and ends the publishing
	// when it is true twice in a row: what looks like a breach at first, the next event may explain.
	Enough func([]history.Event) bool
	Prefix string // of the names of what is declared; "": chaos
	VHost  string // "": "/"
	Log    func(format string, args ...any)
	// Progress, if set, is called each second while messages are published.
	Progress func(Progress)
	// MaxPause is the factor by which clients may pause longer than check.PauseLimits, which are for
	// a quiet machine; 0: pauses are measured, not judged.
	MaxPause float64
	// Dir is where Leave writes.
	Dir string
	// Settings say what the history cannot know of its run: Command, Machine and Target.
	Settings history.Settings
	// History, if set, is where events go as they happen, for a display; nil: a new one.
	History *history.History
}

func (c Config) withDefaults() Config {
	if c.Length == 0 {
		c.Length = time.Minute
	}
	if c.Settle == 0 {
		c.Settle = 90 * time.Second
	}
	if c.Prefix == "" {
		c.Prefix = "chaos"
	}
	if c.VHost == "" {
		c.VHost = "/"
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	if c.History == nil {
		c.History = history.New()
	}
	if c.Faults == nil {
		c.Faults = fault.Kinds()
	}
	return c
}

// Run prepares the workloads, publishes and consumes while the nodes are hit by the steps,
// drains the queues and returns the history. An error means that the run itself failed, not
// that a guarantee was broken.
func Run(ctx context.Context, cfg Config) ([]history.Event, error) {
	cfg = cfg.withDefaults()
	if len(cfg.Workloads) == 0 {
		return nil, errors.New("run: there is no workload: name at least one")
	}
	c, err := client.Dial(ctx, cfg.Cluster.Dial())
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	defer c.Close()
	cfg.History.Add(history.Event{Kind: history.Began, Settings: cfg.settings(ctx, c)})
	changes := &sync.Mutex{}
	loads, err := prepare(ctx, cfg, c, changes)
	if err != nil {
		return nil, err
	}
	var before map[string]map[string]float64
	if cfg.Length >= leakLength {
		before = resources(ctx, cfg, history.Cold, nil)
	}
	consuming, stopConsuming := context.WithCancel(ctx)
	defer stopConsuming()
	publishing, stopPublishing := context.WithTimeout(ctx, cfg.Length)
	defer stopPublishing()
	var working sync.WaitGroup
	failures := &failures{stop: stopPublishing}
	for i, w := range loads {
		working.Go(func() { failures.add(cfg.Workloads[i].Name, w.Publish(consuming, publishing)) })
	}
	if before != nil {
		working.Go(func() { before = warm(publishing, cfg, before) })
	}
	supervised := newSupervisor(cfg)
	working.Go(func() {
		n := nemesis{cfg: cfg, client: c, queues: leading(loads), changes: changes, supervised: supervised, healed: make(chan healed)}
		failures.add("faults", n.run(ctx, publishing))
	})
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watchers sync.WaitGroup
	if cfg.Meanwhile == nil { // which may end nodes too
		watchers.Go(func() { supervised.run(watching) })
	}
	watchers.Go(func() { watchLeaders(watching, cfg, c, leading(loads)) })
	if cfg.Progress != nil {
		watchers.Go(func() { reportProgress(watching, cfg) })
	}
	if cfg.Meanwhile != nil {
		working.Go(func() {
			failures.add("meanwhile", meanwhile(publishing, cfg))
			stopPublishing()
		})
	}
	if cfg.Enough != nil {
		working.Go(func() {
			untilEnough(publishing, cfg)
			stopPublishing()
		})
	}
	working.Wait()
	stopWatching()
	watchers.Wait()
	cfg.Log("publishing is over: draining")
	awaken(ctx, cfg, c)
	draining, cancel := context.WithTimeout(ctx, cfg.Settle)
	defer cancel()
	for i, w := range loads {
		failures.add(cfg.Workloads[i].Name, w.Drain(draining))
	}
	stopConsuming()
	failures.add("digests", digests(ctx, cfg, c))
	if before != nil {
		resources(ctx, cfg, history.End, before)
	}
	return cfg.History.Take(), failures.err()
}

// settings returns how the run is made.
func (c Config) settings(ctx context.Context, asking *client.Client) *history.Settings {
	s := c.Settings
	if status, err := asking.ClusterStatus(ctx); err == nil && len(status.Nodes) > 0 {
		s.Build = status.Nodes[0].Version
	}
	s.At, s.Seed, s.Length, s.Rate, s.MaxPause = c.History.Begun(), c.Seed, c.Length, c.Rate, c.MaxPause
	for _, n := range c.Cluster.Nodes() {
		s.Nodes = append(s.Nodes, n.ID)
	}
	for _, k := range c.Workloads {
		s.Workloads = append(s.Workloads, history.Workload{Name: k.Name, Does: k.Does, Prefix: c.prefix(k), Protocols: k.Protocols})
	}
	return &s
}

// prefix begins the names of all that a workload declares.
func (c Config) prefix(k workload.Kind) string { return c.Prefix + "." + k.Name }

// meanwhile runs Config.Meanwhile. Without steps, what it does to nodes is the cause of what clients
// see until it ends; with steps it only waits for them.
func meanwhile(ctx context.Context, cfg Config) error {
	if len(cfg.Steps) > 0 {
		return cfg.Meanwhile(ctx)
	}
	cfg.History.Add(history.Event{Kind: history.Fault, Note: "meanwhile"})
	defer cfg.History.Add(history.Event{Kind: history.Healed})
	return cfg.Meanwhile(ctx)
}

// enoughEvery is the time between two questions of Config.Enough.
const enoughEvery = 3 * time.Second

// untilEnough returns when Config.Enough was true twice in a row, or ctx ends.
func untilEnough(ctx context.Context, cfg Config) {
	for was := false; wait.For(ctx, enoughEvery) == nil; {
		is := cfg.Enough(cfg.History.Events())
		if is && was {
			cfg.Log("enough was seen")
			return
		}
		was = is
	}
}

// prepare makes the workloads and what they declare.
func prepare(ctx context.Context, cfg Config, c *client.Client, changes sync.Locker) ([]workload.Workload, error) {
	var out []workload.Workload
	for i, k := range cfg.Workloads {
		w := k.New(&workload.World{
			Cluster: cfg.Cluster, History: cfg.History, Client: c, Prefix: cfg.prefix(k), VHost: cfg.VHost,
			Seed: cfg.Seed + uint64(i), Rate: cmp.Or(cfg.Rate, k.Rate), Settle: cfg.Settle, Changes: changes, Log: cfg.Log,
		})
		if err := w.Prepare(ctx); err != nil {
			return nil, fmt.Errorf("run: prepare workload %s: %w", k.Name, err)
		}
		out = append(out, w)
	}
	return out, nil
}

// leading returns the queues whose leaders are hit.
func leading(loads []workload.Workload) []string {
	out := make([]string, 0, len(loads))
	for _, w := range loads {
		out = append(out, w.Leading())
	}
	return out
}

// failures collects the errors of the parts of a run. The first one ends the publishing.
type failures struct {
	stop func()
	mu   sync.Mutex
	all  []error
}

func (f *failures) add(part string, err error) {
	if err == nil {
		return
	}
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Errorf("run: %s: %w", part, err))
}

func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.all...)
}

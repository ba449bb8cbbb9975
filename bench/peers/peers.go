package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config is the configuration of a comparison. Zero values are the defaults, except for Binary.
type Config struct {
	Binary   string        // path of this project's node program
	RabbitMQ string        // directory of rabbitmq-server and rabbitmqctl; "": the usual ones
	NATS     string        // path of nats-server; "": search PATH
	Only     string        // systems to measure, separated by commas: quorate, native, rabbitmq, nats; "": all
	Time     time.Duration // how long each workload publishes; 0: 2 s
	Quick    bool          // a part of the workloads
	Filter   Workload      // only workloads with these values; 0: any
	Exactly  []Workload    // these workloads, grouped by the number of queues, in place of the matrix
	Dir      string        // where the servers' data goes, in a directory of its own; "": the temporary directory
	Log      io.Writer     // gets a line for each workload; nil: no output
	Stuck    string        // directory for diagnostics of servers that stopped making progress; "": the temporary directory
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var errs []error
	if c.Binary == "" {
		errs = append(errs, errors.New("peers: Binary is empty: name the program of nodes, for example bin/quorate"))
	}
	if c.Time < 0 {
		errs = append(errs, fmt.Errorf("peers: Time is %s: use a time above 0", c.Time))
	}
	for _, s := range c.systems() {
		if !slices.Contains(everySystem(), s) {
			errs = append(errs, fmt.Errorf("peers: Only has %q: use some of %s", s, strings.Join(everySystem(), ", ")))
		}
	}
	if len(c.workloads()) == 0 {
		errs = append(errs, fmt.Errorf("peers: Filter leaves none of the workloads: %s", c.Filter))
	}
	return errors.Join(errs...)
}

const (
	defaultTime = 2 * time.Second
	// atOnce is for how many queues at a time servers are asked to declare or delete them, each as often as the others.
	atOnce = 3 * serverCount
)

// everySystem returns the names that Only may have. All are compared with the first.
func everySystem() []string { return []string{"quorate", "native", "rabbitmq", "nats"} }

// systems returns the systems to measure, by their names in Only.
func (c Config) systems() []string {
	if c.Only == "" {
		return everySystem()
	}
	return strings.Split(c.Only, ",")
}

// Workloads returns the matrix, grouped by the number of queues.
func Workloads(quick bool) []Workload {
	sizes, windows := []int{12, 1 << 10, 16 << 10}, []int{1, 100, 1000, 5000}
	if quick {
		sizes, windows = sizes[:2], windows[1:3]
	}
	var out []Workload
	for _, queues := range []int{1, 100} {
		for _, size := range sizes {
			for _, window := range windows {
				out = append(out, Workload{Size: size, Queues: queues, Window: window})
			}
		}
	}
	return out
}

// workloads returns the selected workloads.
func (c Config) workloads() []Workload {
	all := slices.Clone(c.Exactly)
	if len(all) == 0 {
		all = Workloads(c.Quick)
	}
	return slices.DeleteFunc(all, func(w Workload) bool {
		f := c.Filter
		return f.Size > 0 && f.Size != w.Size || f.Queues > 0 && f.Queues != w.Queues || f.Window > 0 && f.Window != w.Window
	})
}

// Run measures every installed system, one after another. A failure is in the report and in the
// error, and does not stop the other measurements.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Time == 0 {
		c.Time = defaultTime
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Stuck == "" {
		c.Stuck = os.TempDir()
	}
	r := &Report{Load: loadAverage(), Seconds: c.Time.Seconds()}
	var errs []error
	for _, find := range c.finders() {
		s, err := find(ctx)
		var m missing
		switch {
		case errors.As(err, &m):
			r.Skipped = append(r.Skipped, m.Error())
			_, _ = fmt.Fprintln(c.Log, m.Error()) // a log
		case err != nil:
			errs = append(errs, err)
		default:
			r.Systems = append(r.Systems, System{Name: s.name(), About: s.about()})
			errs = append(errs, c.measureSystem(ctx, s, r))
		}
	}
	return r, errors.Join(errs...)
}

// finders returns a function for each system that finds it on this machine. JetStream counts twice,
// for its two ways to sync.
func (c Config) finders() []func(context.Context) (system, error) {
	jetStream := func(always bool) func(context.Context) (system, error) {
		return func(ctx context.Context) (system, error) { return findNATS(ctx, c.NATS, always) }
	}
	var out []func(context.Context) (system, error)
	for _, s := range c.systems() {
		switch s {
		case "quorate":
			out = append(out, func(context.Context) (system, error) { return &quorate{binary: c.Binary}, nil })
		case "native":
			out = append(out, func(context.Context) (system, error) { return &native{quorate{binary: c.Binary}}, nil })
		case "rabbitmq":
			out = append(out, func(ctx context.Context) (system, error) { return findRabbit(ctx, c.RabbitMQ) })
		case "nats":
			out = append(out, jetStream(false), jetStream(true))
		}
	}
	return out
}

// measureSystem starts a system, measures each workload, stops the system and removes its files.
func (c Config) measureSystem(ctx context.Context, s system, r *Report) (err error) {
	dir, err := os.MkdirTemp(c.Dir, "quorate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(), os.RemoveAll(dir)) }()
	starting, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s was not ready within %s", s.name(), startTimeout))
	defer cancel()
	if err := s.start(starting, dir); err != nil {
		return fmt.Errorf("start %s: %w", s.name(), err)
	}
	all := c.workloads()
	var errs []error
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Queues == all[0].Queues {
			n++
		}
		err := c.measureQueues(ctx, s, all[:n], r)
		errs = append(errs, err)
		if isStuck(err) {
			break // the system's servers may have ended
		}
		all = all[n:]
	}
	return errors.Join(errs...)
}

// measureQueues measures the workloads with one number of queues.
func (c Config) measureQueues(ctx context.Context, s system, all []Workload, r *Report) (err error) {
	queues := make([]string, all[0].Queues)
	for i := range queues {
		queues[i] = fmt.Sprintf("bench-%d-%d", len(queues), i)
	}
	// A queue's leader is on the node where it was declared, in systems that do not place it
	// elsewhere.
	begin := time.Now()
	err = onServers(ctx, s, queues, session.declare)
	declared := time.Since(begin)
	defer func() {
		if !isStuck(err) {
			err = errors.Join(err, onServers(ctx, s, queues, session.remove))
		}
	}()
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range all {
		f, err := measure(ctx, s, w, queues, c.Time, c.Stuck)
		f.System, f.Workload, f.Declared = s.name(), w, declared.Seconds()
		if err != nil {
			f.Error = err.Error()
			errs = append(errs, err)
		}
		r.Figures = append(r.Figures, f)
		_, _ = fmt.Fprintf(c.Log, "%-22s %6d B %4d queues %5d window: %8.0f/s, confirm %.1f/%.1f ms, end to end %.1f/%.1f ms, %.1f s CPU/million, client %.1f %s\n",
			f.System, w.Size, w.Queues, w.Window, f.Consumed, f.ConfirmP50, f.ConfirmP99, f.EndToEndP50, f.EndToEndP99, f.CPU, f.ClientCPU, f.Error) // a log
		if isStuck(err) {
			break
		}
	}
	return errors.Join(errs...)
}

// onServers calls a function for each queue, with the servers in turn, for a few queues at a time.
func onServers(ctx context.Context, s system, queues []string, do func(session, context.Context, string) error) error {
	errs := make([]error, min(atOnce, len(queues)))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = onServer(ctx, s, i, queues, do) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// onServer calls a function for each queue of one turn, through one server.
func onServer(ctx context.Context, s system, turn int, queues []string, do func(session, context.Context, string) error) (err error) {
	x, err := s.session(ctx, turn%serverCount)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	for i := turn; i < len(queues); i += atOnce {
		if err := do(x, ctx, queues[i]); err != nil {
			return fmt.Errorf("queue %s: %w", queues[i], err)
		}
	}
	return nil
}

// loadAverage is the load average of the last minute before the run.
func loadAverage() float64 {
	var one float64
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(text), &one)
	}
	if err != nil {
		return -1 // not known
	}
	return one
}

// Package operation keeps a node's long jobs: what runs, its progress, and how it ended.
//
// A Registry runs each job in a goroutine of its own, which ends with the job, by Cancel
// or by Close. It keeps nothing on disk: an operation ends with its node's process, and
// what it has changed stays. All methods may be called concurrently; time is asked of
// Config.Now.
package operation

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
)

// Limits of a registry, unless Config says otherwise.
const (
	// DefaultMaxRunning bounds the operations that run at the same time.
	DefaultMaxRunning = 16
	// DefaultMaxEnded bounds the operations that are remembered after their end.
	DefaultMaxEnded = 256
	// MaxDetailBytes bounds Detail and Error.
	MaxDetailBytes = 4096
)

// Errors that callers decide on.
var (
	// ErrUnknown: there is no such operation, or it is no longer remembered.
	ErrUnknown = errors.New("operation: unknown")
	// ErrBusy: the limit of running operations is reached, or the same one runs already.
	ErrBusy = errors.New("operation: busy")
	// ErrEnded: it has ended already.
	ErrEnded = errors.New("operation: has ended")
	// ErrClosed: the node is stopping.
	ErrClosed = errors.New("operation: the node is stopping")
)

// errCancelled is the cause of a job's end by Cancel.
var errCancelled = errors.New("cancelled by an operator")

// Kind is what an operation does.
type Kind string

// State is where an operation stands.
type State string

// The states; all but Running are final.
const (
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Progress is a job's progress; each report replaces the one before.
type Progress struct {
	Phase string
	// Done of Total are made, in Unit. Total is 0 while it is not known.
	Done, Total int64
	Unit        string
	Detail      string // what it waits for, or works on
}

// Operation is a job as it is shown.
type Operation struct {
	ID     ID
	Kind   Kind
	Target string // what it is about, as an operator names it
	State  State
	Progress
	// Rate is in units per second since the phase began; 0 while it is not known.
	Rate float64
	// ETA is the rest of the phase at that rate; 0 while it is not known.
	ETA              time.Duration
	Started, Updated time.Time
	Error            string // why it failed
	// Version grows with every change.
	Version uint64
}

// PartDone reports that an operation ended before its end, but after it had changed
// something.
func (o *Operation) PartDone() bool {
	return (o.State == Failed || o.State == Cancelled) && o.Done > 0
}

// Config describes a registry. Zero values are the defaults.
type Config struct {
	Node       id.NodeID // part of the ids
	Epoch      id.Epoch  // part of the ids
	MaxRunning int       // 0: DefaultMaxRunning
	MaxEnded   int       // 0: DefaultMaxEnded
	Now        func() time.Time
}

// Registry keeps a node's operations.
type Registry struct {
	c    Config
	jobs sync.WaitGroup

	mu      sync.Mutex // guards what follows
	all     []*entry   // oldest first
	last    uint64     // number of the newest
	running int
	ends    uint64 // operations that have ended
	dropped uint64 // forgotten because of MaxEnded
	closed  bool
}

// entry is a job and what is needed to follow it; Registry.mu guards it.
type entry struct {
	op      Operation
	key     string
	began   time.Time // of the phase
	from    int64     // Done when the phase began
	ended   uint64    // its place among the ends; 0 while it runs
	cancel  context.CancelCauseFunc
	changed chan struct{} // closed at the next change
}

// New returns an empty registry.
func New(c Config) *Registry {
	if c.MaxRunning == 0 {
		c.MaxRunning = DefaultMaxRunning
	}
	if c.MaxEnded == 0 {
		c.MaxEnded = DefaultMaxEnded
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Registry{c: c}
}

// Job does the work. It returns soon after ctx has ended. report may be called as often
// as it likes, from any goroutine, until the job returns.
type Job func(ctx context.Context, report func(Progress)) error

// Start runs a job. It is refused with ErrBusy while one of the same kind and target
// runs, which the error names, or too many run.
func (r *Registry) Start(kind Kind, target string, job Job) (Operation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Operation{}, ErrClosed
	}
	key := string(kind) + " " + target
	for _, e := range r.all {
		if e.op.State == Running && e.key == key {
			return e.op, fmt.Errorf("%w: %s of %s runs already as operation %s: watch that one, or cancel it", ErrBusy, kind, target, e.op.ID)
		}
	}
	if r.running >= r.c.MaxRunning {
		return Operation{}, fmt.Errorf("%w: %d operations run on node %q, which is the limit: wait for one, or cancel one", ErrBusy, r.running, r.c.Node)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	now := r.c.Now()
	r.last++
	r.running++
	e := &entry{key: key, began: now, cancel: cancel, changed: make(chan struct{}), op: Operation{
		ID: ID{r.c.Node, r.c.Epoch, r.last}, Kind: kind, Target: target, State: Running,
		Started: now, Updated: now, Version: 1,
	}}
	r.all = append(r.all, e)
	r.jobs.Go(func() { r.run(ctx, e, job) })
	return e.op, nil
}

// run ends the entry however the job ends, in a panic too.
func (r *Registry) run(ctx context.Context, e *entry, job Job) {
	err := protect(func() error { return job(ctx, func(p Progress) { r.report(e, p) }) })
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		e.op.State = Done
	case errors.Is(context.Cause(ctx), errCancelled):
		e.op.State, e.op.Error = Cancelled, cut(err.Error())
	default:
		e.op.State, e.op.Error = Failed, cut(err.Error())
	}
	e.op.ETA = 0
	e.cancel(nil)
	r.running--
	r.ends++
	e.ended = r.ends
	r.touch(e)
	r.forget()
}

// protect turns a job's panic into an error, so that the node survives it.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("operation: the job broke off, which is a fault of the program: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// report does nothing once the job has ended: what it began may still report.
func (r *Registry) report(e *entry, p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.op.State != Running {
		return
	}
	now := r.c.Now()
	if p.Phase != e.op.Phase || p.Unit != e.op.Unit || p.Done < e.from {
		e.began, e.from = now, p.Done
	}
	p.Detail = cut(p.Detail)
	e.op.Progress = p
	e.op.Rate, e.op.ETA = rate(p, e.from, now.Sub(e.began))
	r.touch(e)
}

// rate estimates from what was done in a phase.
func rate(p Progress, from int64, took time.Duration) (perSecond float64, rest time.Duration) {
	if p.Done <= from || took <= 0 {
		return 0, 0
	}
	perSecond = float64(p.Done-from) / took.Seconds()
	if left := p.Total - p.Done; left > 0 {
		rest = time.Duration(float64(left) / perSecond * float64(time.Second))
	}
	return perSecond, rest
}

// touch wakes those that wait for a change. The caller holds mu.
func (r *Registry) touch(e *entry) {
	e.op.Version++
	e.op.Updated = r.c.Now()
	close(e.changed)
	e.changed = make(chan struct{})
}

// forget drops those that ended first, if too many have. The caller holds mu.
func (r *Registry) forget() {
	for ended := len(r.all) - r.running; ended > r.c.MaxEnded; ended-- {
		first := -1
		for i, e := range r.all {
			if e.op.State != Running && (first < 0 || e.ended < r.all[first].ended) {
				first = i
			}
		}
		r.all = slices.Delete(r.all, first, first+1)
		r.dropped++
	}
}

// cut bounds what a job may keep in memory; it may break a rune.
func cut(s string) string {
	if len(s) <= MaxDetailBytes {
		return s
	}
	return s[:MaxDetailBytes-3] + "..."
}

// List returns all operations, oldest first.
func (r *Registry) List() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Operation, len(r.all))
	for i, e := range r.all {
		out[i] = e.op
	}
	return out
}

// find returns an operation's entry. The caller holds mu.
func (r *Registry) find(x ID) (*entry, error) {
	for _, e := range r.all {
		if e.op.ID == x {
			return e, nil
		}
	}
	if x.Node == r.c.Node && x.Epoch != r.c.Epoch {
		return nil, fmt.Errorf("%w: %s ended when node %q was restarted: look at what it has changed, and start it again", ErrUnknown, x, x.Node)
	}
	return nil, fmt.Errorf("%w: node %q has no operation %s, or has forgotten it: the last %d that ended are kept", ErrUnknown, r.c.Node, x, r.c.MaxEnded)
}

// Await returns the operation as soon as its version is above after, or with the error of
// ctx when that ends first.
func (r *Registry) Await(ctx context.Context, x ID, after uint64) (Operation, error) {
	for {
		r.mu.Lock()
		e, err := r.find(x)
		if err != nil || e.op.Version > after {
			defer r.mu.Unlock()
			if err != nil {
				return Operation{}, err
			}
			return e.op, nil
		}
		changed := e.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Operation{}, ctx.Err()
		}
	}
}

// Cancel asks a running operation to end. What it has changed stays.
func (r *Registry) Cancel(x ID) (Operation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, err := r.find(x)
	if err != nil {
		return Operation{}, err
	}
	if e.op.State != Running {
		return e.op, fmt.Errorf("%w: operation %s is %s", ErrEnded, x, e.op.State)
	}
	e.cancel(errCancelled)
	return e.op, nil
}

// Stats are a registry's figures.
type Stats struct {
	Running, Ended int
	Dropped        uint64 // forgotten because of Config.MaxEnded
}

// Stats returns the figures.
func (r *Registry) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Running: r.running, Ended: len(r.all) - r.running, Dropped: r.dropped}
}

// Close ends all jobs and waits for them.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	for _, e := range r.all {
		e.cancel(ErrClosed)
	}
	r.mu.Unlock()
	r.jobs.Wait()
}

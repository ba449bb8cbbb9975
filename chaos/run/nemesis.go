package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
)

// healTimeout bounds the wait for nodes to be ready, and for queues to be led, after a fault.
const healTimeout = 60 * time.Second

// undoTimeout bounds the healing of one fault: where pods are made again, that takes minutes.
const undoTimeout = 10 * time.Minute

// nemesis goes through the steps of a schedule. One goroutine alone uses it; faults are healed by goroutines of their
// own, because the healing of one may wait for a node that the healing of another one brings back.
type nemesis struct {
	cfg    Config
	client *client.Client
	queues []string // whose leaders are meant, in turn
	number int      // of the last fault
	// changes is held by workloads that change members of queues.
	changes sync.Locker
	// supervised leaves nodes alone that are hit.
	supervised *supervisor
	open       []open // whose healing has not begun, in the order in which they end

	healing int  // how many are being healed now
	lasting int  // how many of these are not Last
	short   bool // some queue has a member too few since before the next fault
	healed  chan healed
	failed  error // of those that were healed
}

// healed is the outcome of healing a fault.
type healed struct {
	last bool
	err  error
}

// open is a fault that is not healed yet.
type open struct {
	fault.Fault
	number int
	name   string // of its kind
	kind   string
	nodes  []string
	until  time.Time
}

// run goes through the steps until publishing ends. What was put in is healed in any case.
func (n *nemesis) run(ctx, publishing context.Context) error {
	begin := time.Now()
	var failed error
	for _, s := range n.cfg.Steps {
		if !s.Beside || n.alone(s) {
			failed = n.healAll(ctx, publishing)
		}
		if failed == nil {
			failed = n.healUntil(ctx, publishing, begin.Add(s.At))
		}
		if failed != nil || publishing.Err() != nil {
			break
		}
		if failed = n.put(ctx, s); failed != nil {
			break
		}
	}
	return errors.Join(failed, n.healAll(ctx, publishing))
}

// alone reports whether the step waits until nothing else lasts, whatever the schedule says.
func (n *nemesis) alone(s fault.Step) bool {
	named := func(kind string) bool {
		return slices.ContainsFunc(n.cfg.Faults, func(k fault.Kind) bool { return k.Name == kind && k.Alone })
	}
	return named(s.Kind) || slices.ContainsFunc(n.open, func(o open) bool { return named(o.name) })
}

// put puts one fault in.
func (n *nemesis) put(ctx context.Context, s fault.Step) error {
	i := slices.IndexFunc(n.cfg.Faults, func(k fault.Kind) bool { return k.Name == s.Kind })
	if i < 0 {
		return fmt.Errorf("there is no fault %q", s.Kind)
	}
	kind := n.cfg.Faults[i]
	if err := kind.Needs(n.cfg.Cluster); err != nil {
		return fmt.Errorf("fault %s: %w", s.Kind, err)
	}
	queue := n.queues[n.number%len(n.queues)]
	nodes, err := n.choose(ctx, queue, s)
	if err != nil || len(nodes) == 0 {
		return err
	}
	n.number++
	note := fmt.Sprintf("%s of %s", s.Kind, s.Role)
	n.cfg.Log("%s: %v for %v", note, nodes, s.For.Round(time.Millisecond))
	n.cfg.History.Add(history.Event{Kind: history.Fault, Fault: n.number, Nodes: nodes, Queue: queue, Note: note, Class: kind.Class, Short: n.short})
	n.supervised.hold(nodes, 1)
	scene := &fault.Scene{Cluster: n.cfg.Cluster, Client: n.client, Queue: queue, VHost: n.cfg.VHost, Changes: n.changes, Log: n.cfg.Log}
	f, err := kind.Put(ctx, scene, fault.Choice{Nodes: nodes, For: s.For, Pick: s.Pick})
	if err != nil {
		err = fmt.Errorf("%s of %v: %w", note, nodes, err)
	}
	if f.Heal != nil { // a fault that failed half way is healed too
		n.open = append(n.open, open{Fault: f, number: n.number, name: s.Kind, kind: note, nodes: nodes, until: time.Now().Add(s.For)})
	} else {
		n.supervised.hold(nodes, -1)
	}
	return err
}

// choose returns the nodes of the step's role, without those that another fault holds.
func (n *nemesis) choose(ctx context.Context, queue string, s fault.Step) ([]string, error) {
	var free []string
	for _, x := range n.cfg.Cluster.Nodes() {
		if !n.supervised.isHeld(x.ID) {
			free = append(free, x.ID)
		}
	}
	if len(free) == 0 {
		return nil, nil
	}
	leader := ""
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if q, err := n.client.GetQueue(asking, client.QueueRef{VHost: n.cfg.VHost, Name: queue}); err == nil {
		leader = q.Leader
		follows := func(n string) bool { return slices.Contains(q.Members, n) }
		if s.Role == fault.Follower && slices.ContainsFunc(free, follows) { // other nodes follow nobody
			free = slices.DeleteFunc(free, func(n string) bool { return !follows(n) })
		}
	} else if len(n.open) == 0 {
		return nil, fmt.Errorf("leader of queue %q: %w", queue, err)
	}
	return fault.Choose(free, leader, s.Role, s.Pick), nil
}

// healUntil heals what is due until at, waits for the end of that, and then until at.
func (n *nemesis) healUntil(ctx, publishing context.Context, at time.Time) error {
	n.healDue(ctx, publishing, at)
	_ = wait.For(publishing, time.Until(at)) // its end is looked at elsewhere
	return n.failed
}

// healDue heals what is due until at, each when it is due or at once when publishing is over, and with it what becomes
// due meanwhile. It returns when all healing has ended.
func (n *nemesis) healDue(ctx, publishing context.Context, at time.Time) {
	for {
		now := time.Now()
		i, next := n.nextDue()
		due := i >= 0 && (!next.After(at) || !next.After(now))
		switch {
		case due && (!next.After(now) || publishing.Err() != nil):
			n.heal(ctx, i)
		case due:
			n.pause(publishing, next)
		case n.healing == 0:
			return
		case i >= 0:
			n.pause(context.WithoutCancel(ctx), next) // what heals ends by itself
		default:
			n.pause(context.WithoutCancel(ctx), now.Add(undoTimeout))
		}
	}
}

// pause waits until a time, the end of ctx, or the end of a healing.
func (n *nemesis) pause(ctx context.Context, until time.Time) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case h := <-n.healed:
		n.healing--
		if !h.last {
			n.lasting--
		}
		n.failed = errors.Join(n.failed, h.err)
	case <-t.C:
	case <-ctx.Done():
	}
}

// nextDue returns the open fault that ends next; -1: none is open, or all wait for others.
func (n *nemesis) nextDue() (i int, at time.Time) {
	i = -1
	for j, o := range n.open {
		sooner := i < 0 || n.open[i].Last && !o.Last || n.open[i].Last == o.Last && o.until.Before(at)
		if sooner {
			i, at = j, o.until
		}
	}
	if i >= 0 && n.open[i].Last && n.lasting > 0 {
		return -1, at
	}
	return i, at
}

// healAll heals all faults, each when it is due or at once when publishing is over, and waits until all queues and nodes
// are there again.
func (n *nemesis) healAll(ctx, publishing context.Context) error {
	if len(n.open) == 0 && n.healing == 0 {
		return n.failed
	}
	n.healDue(ctx, publishing, time.Now().Add(math.MaxInt64)) // whenever they are due
	errs := []error{n.failed}
	ready, cancel := context.WithTimeout(ctx, healTimeout)
	defer cancel()
	if err := n.led(ready); err != nil {
		errs = append(errs, err)
	}
	for _, x := range n.cfg.Cluster.Nodes() {
		if err := n.cfg.Cluster.WaitReady(ready, x.ID); err != nil {
			errs = append(errs, fmt.Errorf("node %s after the faults: %w", x.ID, err))
		}
	}
	return errors.Join(errs...)
}

// heal begins to heal a fault: pause takes the outcome.
func (n *nemesis) heal(ctx context.Context, i int) {
	o := n.open[i]
	n.open = slices.Delete(n.open, i, i+1)
	n.healing++
	if !o.Last {
		n.lasting++
	}
	go func() { n.healed <- healed{last: o.Last, err: n.healOne(ctx, &o)} }()
}

// healOne ends one fault and records whether it was felt.
func (n *nemesis) healOne(ctx context.Context, o *open) error {
	if o.Bit != nil {
		proof, bit, err := o.Bit(ctx)
		switch {
		case err != nil:
			proof = "not known: " + err.Error()
		case !bit:
			proof = "did not bite: " + proof
		}
		n.cfg.Log("%s of %v: %s", o.kind, o.nodes, proof)
		nodes := slices.Concat(o.nodes, o.Added)
		n.cfg.History.Add(history.Event{Kind: history.Bit, Fault: o.number, Nodes: nodes, Note: proof, Again: bit && err == nil})
	}
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout) // also what was interrupted is healed
	defer cancel()
	err := o.Heal(healing)
	n.supervised.hold(o.nodes, -1)
	n.cfg.History.Add(history.Event{Kind: history.Healed, Fault: o.number, Nodes: o.nodes})
	if err != nil {
		return fmt.Errorf("healing %s of %v: %w", o.kind, o.nodes, err)
	}
	return nil
}

// led waits until every queue of the run has a leader.
func (n *nemesis) led(ctx context.Context) error {
	var queues []string
	for {
		var err error
		if queues, err = ours(ctx, n.cfg, n.client); err == nil {
			break
		}
		if wait.For(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("queues are not listed %v after the faults: %w", healTimeout, err)
		}
	}
	err := each.Of(queues, askedAtOnce, func(queue string) error {
		for {
			q, err := n.client.GetQueue(ctx, client.QueueRef{VHost: n.cfg.VHost, Name: queue})
			if err == nil && q.Leader != "" || client.ClassOf(err) == client.NotFound { // or deleted meanwhile
				return nil
			}
			if wait.For(ctx, 20*time.Millisecond) != nil {
				return fmt.Errorf("queue %q has no leader %v after the faults: %w", queue, healTimeout, errors.Join(err, ctx.Err()))
			}
		}
	})
	if err != nil {
		return err
	}
	n.cfg.History.Add(history.Event{Kind: history.Led})
	n.short = !n.whole(ctx, queues)
	return nil
}

// askedAtOnce is how many queues are asked for at the same time: one after another, a run's queues take longer than a
// fault.
const askedAtOnce = 8

// wholeTimeout bounds the wait for queues to have all their members again.
const wholeTimeout = 20 * time.Second

// whole waits until each queue has been seen with all its members: a member that is being rebuilt does not vote, and
// another fault beside that is more than a queue of three tolerates. It gives up without an error, because a workload
// may change members all the time, and reports whether it saw them all.
func (n *nemesis) whole(ctx context.Context, queues []string) bool {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	nodes := len(n.cfg.Cluster.Nodes())
	return nil == each.Of(queues, askedAtOnce, func(queue string) error {
		for {
			q, err := n.client.GetQueue(ctx, client.QueueRef{VHost: n.cfg.VHost, Name: queue})
			if client.ClassOf(err) == client.NotFound || err == nil && fault.Complete(q, nodes) {
				return nil
			}
			if err := wait.For(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	})
}

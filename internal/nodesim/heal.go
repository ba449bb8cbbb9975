package nodesim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

const (
	// wholeAfter is how long a cluster may take to be whole again once nothing is broken.
	wholeAfter = 2 * time.Minute
	pollEvery  = 10 * time.Millisecond
	prefetch   = 500
)

// found starts a new cluster, whose nodes know one another's stores, with one queue.
func (r *run) found(ctx context.Context) (err error) {
	log := r.cfg.Log
	if log == nil {
		log = slog.DiscardHandler
	}
	if r.nodes, err = newNodes(r.cfg, elections{Handler: log, ledger: r.ledger}); err != nil {
		return err
	}
	for _, n := range r.nodes {
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	r.await(ctx, "founded", r.ready)
	r.await(ctx, "founded", r.known)
	n, name := r.nodes[r.rng.IntN(members)], r.nextQueue()
	r.say("declare %s at %s", name, n.id)
	r.await(ctx, "founded", func() error {
		if r.declareAt(ctx, n.live.Load(), name); len(r.ledger.declared()) == 0 { // a busy machine may take longer than a client waits
			return errors.New("no queue is declared")
		}
		return nil
	})
	for _, n := range r.nodes {
		// From now on each start begins with this view, which is older than all that comes (RE-9, EX-16).
		if err := n.live.Load().Catalog().Raft().Snapshot(); err != nil {
			return err
		}
	}
	r.watch()
	r.publish(ctx)
	return nil
}

// await waits until f returns nil; that it does is a rule.
func (r *run) await(ctx context.Context, rule string, f func() error) {
	ctx, cancel := context.WithTimeout(ctx, wholeAfter)
	defer cancel()
	for r.ledger.broken() == nil {
		err := f()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			r.ledger.broke(rule, "not within %v: %v%s", wholeAfter, err, r.explain())
		}
		r.pause(ctx, pollEvery)
	}
}

// explain returns what each node knows of each queue's group.
func (r *run) explain() string {
	var b strings.Builder
	for _, q := range r.ledger.declared() {
		for _, n := range r.nodes {
			if c := n.live.Load(); c != nil {
				fmt.Fprintf(&b, "\n  %s (%v) at %s: %s", q.name, q.uid, n.id, c.ExplainGroup(q.uid))
			}
		}
	}
	return b.String()
}

// ready returns why a node does not serve.
func (r *run) ready() error {
	for _, n := range r.nodes {
		c := n.live.Load()
		if c == nil {
			return fmt.Errorf("node %s is down", n.id)
		}
		if err := c.Ready(); err != nil {
			return fmt.Errorf("node %s: %w", n.id, err)
		}
	}
	return nil
}

// known returns which store a node does not know: by these a wiped disk is noticed.
func (r *run) known() error {
	for _, n := range r.nodes {
		for _, o := range r.nodes {
			if rec, is := n.live.Load().View().Node(o.id); !is || rec.Store == "" {
				return fmt.Errorf("node %s does not know the store of %s", n.id, o.id)
			}
		}
	}
	return nil
}

// heal ends all faults and judges what is left: all nodes serve, know what was declared, and have
// what was confirmed.
func (r *run) heal(ctx context.Context) {
	r.say("heal")
	r.openDoors()
	for _, n := range r.nodes {
		n.clock.by.Store(0)
		r.startOne(ctx, n)
	}
	r.await(ctx, "replace", func() error {
		if r.wiped < 0 || r.replaced {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := r.nodes[(r.wiped+1)%members].live.Load().Operator().ReplaceNode(ctx, r.nodes[r.wiped].id, false, nil)
		r.replaced = err == nil
		return err
	})
	r.await(ctx, "whole", r.ready)
	r.quiet.Store(true)
	r.await(ctx, "Q-16", r.agreed)
	r.await(ctx, "RE-3", r.changed)
	for _, q := range r.ledger.declared() {
		if r.ledger.broken() != nil {
			return
		}
		r.drain(ctx, q)
	}
}

// agreed returns which queue a node does not know as it was declared.
func (r *run) agreed() error {
	for _, n := range r.nodes {
		v := n.live.Load().View()
		for _, q := range r.ledger.declared() {
			if rec, is := v.Queue(catalog.DefaultVHost, q.name); !is || rec.UID != q.uid {
				return fmt.Errorf("node %s does not know queue %s (%v)", n.id, q.name, q.uid)
			}
		}
	}
	return nil
}

// changed returns which queue's change of members has not come to an end.
func (r *run) changed() error {
	for _, n := range r.nodes {
		v := n.live.Load().View()
		for _, q := range r.ledger.declared() {
			if rec, is := v.Queue(catalog.DefaultVHost, q.name); is && rec.Change != nil {
				return fmt.Errorf("node %s: the change of queue %s goes on: %s", n.id, q.name, rec.Change)
			}
		}
	}
	return nil
}

// drain consumes a queue until it is empty, and judges what there was.
func (r *run) drain(ctx context.Context, q queue) {
	c := r.nodes[int(q.uid)%members].live.Load()
	came := make(chan []traffic.Delivery, prefetch)
	var consumer *gateway.Consumer
	r.await(ctx, "drained", func() error {
		end, err := c.Gateway().Queue(q.uid)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		consumer, err = end.Consume(ctx, gateway.ConsumerConfig{
			Prefetch: prefetch, Deliver: func(ds []traffic.Delivery) { came <- ds },
			Ended: func(err error) {
				r.ledger.broke("DC-1", "queue %s has ended a consumer of a node that is there: %v", q.name, err)
			},
		})
		return err
	})
	if consumer == nil {
		return
	}
	defer consumer.Close()
	seen := map[string]int{}
	r.await(ctx, "drained", func() error {
		for len(came) > 0 {
			ds := <-came
			for i := range ds {
				first := 0 // one that was on its way before counts as there, and not as there again
				if ds[i].AcquiredCount == 0 {
					first = 1
				}
				seen[string(ds[i].Message)] += first
			}
			consumer.Decide(quorumq.MsgIDRange{First: ds[0].MsgID, Last: ds[len(ds)-1].MsgID}, gateway.Decision{Kind: gateway.Ack})
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		s, err := c.Leaders().Status(ctx, q.uid)
		if err != nil || s.Overview.Ready+s.Overview.Unsettled > 0 {
			return cmp.Or(err, error(left{q.name, s.Overview.Ready, s.Overview.Unsettled}))
		}
		return nil
	})
	r.ledger.judge(q, seen)
}

// left is what a queue still holds.
type left struct {
	queue            string
	ready, unsettled uint64
}

func (l left) Error() string {
	return fmt.Sprintf("queue %s has %d messages ready and %d with its consumer", l.queue, l.ready, l.unsettled)
}

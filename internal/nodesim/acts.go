package nodesim

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/wal/vfs"
)

const (
	// maxQueues bounds the queues of a run.
	maxQueues = 6
	// changeTime bounds the wait for a change of members.
	changeTime = 15 * time.Second
)

// act does one thing to the cluster. Which one follows from the seed and from what was done before, and
// never from how it ended.
func (r *run) act(ctx context.Context) {
	n := r.nodes[r.rng.IntN(members)]
	switch p := r.rng.IntN(100); {
	case p < 28:
		r.startOne(ctx, n)
	case p < 48:
		r.cut(n)
	case p < 54:
		r.cut(r.nodes[:]...)
		r.startOne(ctx, n) // alone, with what it knows
	case p < 60:
		r.stop(n)
	case p < 74 && r.changes:
		r.change(ctx, n.id)
	case p < 68:
		r.wipe(n)
	case p < 74:
		r.replace(ctx)
	case p < 80:
		by := time.Duration(r.rng.IntN(7200)-3600) * time.Second
		r.say("clock of %s %v", n.id, by)
		n.clock.by.Store(int64(by))
	case p < 90:
		r.say("deaf %s", n.id)
		n.door.shut()
	case p < 94:
		r.say("nobody is deaf")
		r.openDoors()
	default:
		r.declare(ctx)
	}
}

// openDoors lets each node hear the others.
func (r *run) openDoors() {
	for _, n := range r.nodes {
		n.door.open()
	}
}

// startOne starts a node that is down.
func (r *run) startOne(ctx context.Context, n *node) {
	if n.live.Load() != nil {
		return
	}
	r.say("start %s", n.id)
	if err := n.start(ctx); err != nil {
		r.ledger.broke("start", "node %s does not start: %v", n.id, err)
	}
}

// cut takes the power of nodes away at one moment.
func (r *run) cut(nodes ...*node) {
	for _, n := range nodes {
		loss := vfs.Loss(r.rng.IntN(int(vfs.Losses)))
		if n.live.Load() != nil {
			r.say("cut %s, loss %d", n.id, loss)
			n.cut(loss, r.rng)
			r.result.Cuts++
		}
	}
	for _, n := range nodes {
		n.stop()
	}
}

// stop stops a node in order.
func (r *run) stop(n *node) {
	if n.live.Load() != nil {
		r.say("stop %s", n.id)
		n.stop()
		r.result.Stops++
	}
}

// change lets an operator rebuild a member of a queue, or take it out and add it again, through some node that runs,
// and does not wait for the answer.
func (r *run) change(ctx context.Context, member id.NodeID) {
	first, which, anew := r.rng.IntN(members), r.rng.IntN(maxQueues), r.rng.IntN(2) == 0
	queues := r.ledger.declared()
	for i := range members {
		c := r.nodes[(first+i)%members].live.Load()
		if c == nil {
			continue
		}
		q := queues[which%len(queues)]
		r.say("change %s at %s: member %s, anew %v", q.name, r.nodes[(first+i)%members].id, member, anew)
		r.result.Changes++
		r.loads.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, changeTime)
			defer cancel()
			o := c.Operator()
			if anew {
				_ = o.ReplaceMember(ctx, q.uid, member, member, nil) // refused, or broken off: the group has to go on
			} else if o.RemoveMember(ctx, q.uid, member, nil) == nil {
				_ = o.AddMember(ctx, q.uid, member, nil)
			}
		})
		return
	}
}

// wipe takes the disk of one node away, once in a run: each group keeps the majority that it needs.
func (r *run) wipe(n *node) {
	if r.wiped >= 0 {
		return
	}
	r.cut(n)
	r.say("wipe %s", n.id)
	r.wiped = int(n.id[1] - '0')
	r.result.Wipes++
	if err := n.wipe(); err != nil {
		r.ledger.broke("wipe", "%v", err)
	}
}

// replace lets an operator give the wiped disk up, at some node that runs.
func (r *run) replace(ctx context.Context) {
	if r.wiped < 0 || r.replaced {
		return
	}
	r.say("replace %s", r.nodes[r.wiped].id)
	for i, n := range r.nodes {
		if c := n.live.Load(); c != nil && i != r.wiped {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			r.replaced = c.Operator().ReplaceNode(ctx, r.nodes[r.wiped].id, false, nil) == nil
			return
		}
	}
}

// declare lets a client declare one more queue through some node that runs, and does not wait for the answer.
func (r *run) declare(ctx context.Context) {
	first := r.rng.IntN(members)
	if r.queues == maxQueues {
		return
	}
	for i := range members {
		n := r.nodes[(first+i)%members]
		c := n.live.Load()
		if c == nil {
			continue
		}
		name := r.nextQueue()
		r.say("declare %s at %s", name, n.id)
		r.loads.Go(func() { r.declareAt(ctx, c, name) })
		return
	}
}

// nextQueue returns the name of a queue that is not declared yet.
func (r *run) nextQueue() string {
	r.queues++
	return fmt.Sprintf("q%d", r.queues-1)
}

// declareAt declares a queue on all nodes; what is not answered is not used.
func (r *run) declareAt(ctx context.Context, c *cluster.Cluster, name string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reply, err := c.Operator().DeclareQueue(ctx, catalog.DeclareQueue{
		VHost: catalog.DefaultVHost, Name: name, Type: catalog.QueueQuorum, Durable: true,
		Arguments: []message.Field{{Name: "x-quorum-initial-group-size", Value: message.Int64(members)}},
	}, members, false)
	if err == nil {
		r.ledger.declare(name, reply.UID)
	}
}

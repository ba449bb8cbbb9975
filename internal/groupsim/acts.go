package groupsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

const (
	clients = 3
	// A client proposes after a pause of at most thinkTime, and waits for the reply for replyTime.
	thinkTime = 6 * time.Millisecond
	replyTime = time.Second
	// longOff is how long the power is off at most that the schedule cuts.
	longOff = 400 * time.Millisecond
	// replacedWithin is how long after its disk began to hang a leader may be the last one, where all others are well.
	replacedWithin = stallTimeout + 10*electionTimeout
	// wholeWithin is how long a group may take to be led, and its members to be equal, when nothing is broken.
	wholeWithin = time.Minute
	pollEvery   = 5 * time.Millisecond
)

// act does one thing to the group. Which one follows from the seed, and never from how the one before ended.
func (r *run) act() {
	n, o := r.nodes[r.rng.IntN(len(r.nodes))], r.nodes[r.rng.IntN(len(r.nodes))]
	switch p := r.rng.IntN(100); {
	case p < 20:
		r.cut(n)
	case p < 32:
		some := slices.Clone(r.nodes)
		r.rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		r.cut(some[:1+r.rng.IntN(len(some))]...)
	case p < 50:
		r.block(n, o)
	case p < 58:
		r.isolate(n)
	case p < 68:
		r.say("links are open")
		r.unblock()
	case p < 78:
		most := []time.Duration{quickCall, slowCall, awfulCall}[r.rng.IntN(3)]
		r.say("calls take up to %v", most)
		r.slow.Store(int64(most))
	case p < 92:
		most := []time.Duration{quickDisk, slowDisk, awfulDisk}[r.rng.IntN(3)]
		r.say("syncs of %s take up to %v", n.id, most)
		n.pace.set(most)
	default:
		r.hang()
	}
}

// cut takes the power of nodes away at one moment. They come back one by one.
func (r *run) cut(nodes ...*node) {
	for _, n := range nodes {
		loss, down := r.dice.loss(), time.Duration(r.rng.Int64N(int64(longOff)))
		r.say("cut %s for %v, loss %d", n.id, down.Round(time.Millisecond), loss)
		r.loads.Go(func() { n.off(nil, loss, down) })
	}
}

// block holds back what one node sends another.
func (r *run) block(from, to *node) {
	if from == to {
		return
	}
	r.say("block %s to %s", from.id, to.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blocked[[2]*node{from, to}] = true
}

// isolate holds back all that a node sends, and is sent.
func (r *run) isolate(n *node) {
	for _, o := range r.nodes {
		r.block(n, o)
		r.block(o, n)
	}
}

// unblock lets all links carry again, at once what they have held back.
func (r *run) unblock() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.blocked)
	r.change()
}

// rest ends all faults but those that are under way, and waits until every member runs and one leads.
func (r *run) rest() *member {
	r.still()
	r.unblock()
	r.slow.Store(int64(quickCall))
	for _, n := range r.nodes {
		n.pace.release()
		n.pace.set(quickDisk)
	}
	var led *member
	r.await("one leads", func() error {
		for _, n := range r.nodes {
			if r.liveAt(n) == nil {
				return fmt.Errorf("member %s is off", n.id)
			}
		}
		if led = r.leader(nil); led == nil {
			return errors.New("no member leads")
		}
		ctx, cancel := context.WithTimeout(context.Background(), replyTime)
		defer cancel()
		return led.group.Barrier(ctx)
	})
	return led
}

// hang lets the disk of the leader hang while all else is well: another member has to lead (RE-2).
func (r *run) hang() {
	led := r.rest()
	if r.broken() != nil {
		return
	}
	r.say("the disk of %s hangs, which leads", led.node.id)
	r.mu.Lock()
	r.result.Hangs++
	r.mu.Unlock()
	led.node.pace.hang()
	for began := time.Now(); r.leader(led) == nil && r.broken() == nil; r.pause(pollEvery) {
		if time.Since(began) > replacedWithin {
			r.broke("RE-2", "no other member leads %v after the disk of the leader %s began to hang", replacedWithin, led.node.id)
		}
	}
	led.node.pace.release()
	r.stir()
}

// heal ends all faults and judges what is left.
func (r *run) heal() {
	if r.broken() != nil {
		return
	}
	r.say("heal")
	led := r.rest()
	r.quiet.Store(true)
	var headers []string
	r.await("members are equal", func() error {
		if led = r.leader(nil); led == nil {
			return errors.New("no member leads")
		}
		headers = led.headers()
		for _, n := range r.nodes {
			m := r.liveAt(n)
			if m == nil {
				return fmt.Errorf("member %s is off", n.id)
			}
			if have := m.headers(); !slices.Equal(have, headers) {
				return fmt.Errorf("member %s has %d commands, the leader %s has %d", n.id, len(have), led.node.id, len(headers))
			}
		}
		return nil
	})
	r.look()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rules.first == nil {
		r.rules.judge(headers)
	}
}

// await waits until f returns nil; that it does is a rule.
func (r *run) await(rule string, f func() error) {
	for began := time.Now(); r.broken() == nil; r.pause(pollEvery) {
		err := f()
		if err == nil {
			return
		}
		if time.Since(began) > wholeWithin {
			r.broke(rule, "not within %v: %v", wholeWithin, err)
		}
		r.look()
	}
}

// look judges whether members have stopped by themselves.
func (r *run) look() {
	for _, n := range r.nodes {
		if err := n.failed(); err != nil {
			r.broke("stopped", "member %s has stopped by itself: %v", n.id, err)
		}
	}
}

// node returns the node with a name, or nil.
func (r *run) node(name raft.ServerID) *node {
	i := slices.IndexFunc(r.nodes, func(n *node) bool { return n.id == id.NodeID(name) })
	if i < 0 {
		return nil
	}
	return r.nodes[i]
}

// liveAt returns a node's member, nil while it is off.
func (r *run) liveAt(n *node) *member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return n.live
}

// leader returns a member that leads and is not the one given, or nil.
func (r *run) leader(but *member) *member {
	for _, n := range r.nodes {
		if m := r.liveAt(n); m != nil && m != but && m.group.Leading() {
			return m
		}
	}
	return nil
}

// headers returns the commands of a member.
func (m *member) headers() (all []string) {
	m.group.Read(func() { all = slices.Clone(m.machine.headers) })
	return all
}

// propose is a client, which proposes to the leader of the moment until the run ends.
func (r *run) propose(client int) {
	for i := 0; ; i++ {
		select {
		case <-r.ending:
			return
		case <-time.After(r.dice.between(0, thinkTime)):
		}
		led := r.leader(nil)
		if led == nil || r.quiet.Load() {
			continue
		}
		header := fmt.Sprintf("c%d-%d", client, i)
		r.mu.Lock()
		r.rules.fates[header] = unknown
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), replyTime)
		at, err := led.group.Propose(ctx, raftfsm.Command{Header: []byte(header)})
		cancel()
		if err == nil {
			r.confirm(led, header, at.index)
		}
	}
}

// confirm judges a reply, unless the power of the member was cut before it left.
func (r *run) confirm(led *member, header string, index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if led.node.live != led {
		return
	}
	disks := 0
	term, known := led.store.term(index)
	for _, n := range r.nodes {
		if known && n.store.onDisk(index, term) {
			disks++
		}
	}
	r.rules.confirm(header, disks, len(r.nodes))
}

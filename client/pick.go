package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pickStagger is how long a node is asked alone before the next one is asked as well. A dead
// address costs no more than that.
const pickStagger = 200 * time.Millisecond

// maxPass limits how long pickFirst passes over a node that does not answer. The first time, that is badTime.
const maxPass = 5 * time.Minute

// pickResult is the result of asking a node.
type pickResult struct {
	node *node
	err  error // nil: it accepts new work
}

// pickFirst returns the first of some addresses whose node accepts new work, and otherwise what pick returns. Addresses
// that the client does not know are left out, and those of nodes that failed lately or did not answer pickFirst. Other calls
// go on where they were.
func (ns *nodes) pickFirst(ctx context.Context, now time.Time, addresses []string) (*node, error) {
	if len(addresses) == 0 {
		return ns.pick(ctx)
	}
	candidates, err := ns.candidates(now)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		i := slices.IndexFunc(candidates, func(n *node) bool { return n.address == a && !n.bad(now) && !n.passed(now) })
		if i < 0 {
			continue
		}
		n := candidates[i]
		err := ns.readySoon(ctx, n, now)
		if err == nil {
			return n, nil
		}
		if ctx.Err() != nil {
			return nil, noneAnswers([]error{err})
		}
	}
	return ns.pick(ctx)
}

// readySoon is ready of a node that the call prefers, within pickStagger. If it fails, pickFirst passes the node over for a
// while. A node that is only late may have other calls and streams, so it counts as lost only when its probe has failed,
// which continues meanwhile.
func (ns *nodes) readySoon(ctx context.Context, n *node, now time.Time) error {
	if n.fresh(now, ns.cfg.ProbeInterval) {
		return nil
	}
	probed := make(chan error, 1)
	go func() {
		err := ns.ready(ctx, n, now, false)
		if err != nil && ctx.Err() == nil {
			n.passOver(now) // before lost, which may replace the node
			ns.lost(n, err)
		}
		probed <- err
	}()
	late := time.NewTimer(pickStagger)
	defer late.Stop()
	select {
	case err := <-probed:
		return err
	case <-late.C:
		n.passOver(now)
		return fmt.Errorf("client: node %s has not answered for %v", n.address, pickStagger)
	}
}

// pick returns a node that answers, the last one used if it does. The others are asked after it,
// each as soon as one has failed or pickStagger has passed; the first one that accepts new work
// wins.
func (ns *nodes) pick(ctx context.Context) (*node, error) {
	now := time.Now()
	candidates, err := ns.candidates(now)
	if err != nil {
		return nil, err
	}
	if first := candidates[0]; first.fresh(now, ns.cfg.ProbeInterval) {
		ns.prefer(first)
		return first, nil
	}
	race, end := context.WithCancel(ctx) // slower ones are neither waited for nor blamed
	defer end()
	answers := make(chan pickResult, len(candidates))
	turn := time.NewTicker(pickStagger)
	defer turn.Stop()
	alone, left := len(candidates) == 1, candidates
	begin := func() {
		if len(left) == 0 {
			return
		}
		n := left[0]
		left = left[1:]
		go func() { answers <- pickResult{n, ns.ready(race, n, now, alone)} }()
		turn.Reset(pickStagger)
	}
	var errs []error
	for begin(); len(errs) < len(candidates); {
		select {
		case <-turn.C:
			begin()
		case a := <-answers:
			if a.err == nil {
				ns.prefer(a.node)
				return a.node, nil
			}
			errs = append(errs, a.err)
			if ctx.Err() != nil { // the caller's impatience says nothing about the node
				return nil, noneAnswers(errs)
			}
			ns.lost(a.node, a.err)
			begin()
		}
	}
	return nil, noneAnswers(errs)
}

func noneAnswers(errs []error) error {
	return status.Errorf(codes.Unavailable, "no node answers: %v", errors.Join(errs...))
}

// errNotServing is the state of a node that clients are to leave.
var errNotServing = errors.New("is starting or draining")

// ready asks a node whether it accepts new work, unless it has answered so recently. A client's
// only node counts as ready if it answers at all.
func (ns *nodes) ready(ctx context.Context, n *node, now time.Time, alone bool) error {
	if n.fresh(now, ns.cfg.ProbeInterval) {
		return nil
	}
	serving, err := n.probe(ctx, ns.cfg.ProbeTimeout)
	if err == nil && !serving && !alone {
		err = fmt.Errorf("client: node %s %w", n.address, errNotServing)
	}
	return err
}

// bad reports that the node failed lately.
func (n *node) bad(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.Before(n.badUntil)
}

// passOver makes pickFirst pass the node over, for twice as long each time, until it answers a probe. Calls that ask it at
// the same time count once.
func (n *node) passOver(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Before(n.passUntil) {
		return
	}
	n.passFor = min(max(2*n.passFor, badTime), maxPass)
	n.passUntil = now.Add(n.passFor)
}

// passed reports that pickFirst passes the node over.
func (n *node) passed(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.Before(n.passUntil)
}

// fresh reports that the node has answered within the given time.
func (n *node) fresh(now time.Time, within time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.Sub(n.seen) < within
}

package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

const (
	// baseTimeout limits one question for the base of a joining member.
	baseTimeout = 2 * time.Second
	// baseRetry is the wait before those are asked again that have given none.
	baseRetry = 100 * time.Millisecond
)

// begins reports whether a member that is due to be opened may be. If it joins and has no base, one is asked for in the
// background, and the reconcile loop is woken.
func (h *Host) begins(r *catalog.QueueRecord) bool {
	g := Joins(r, h.cfg.Node)
	if g == nil || h.Begun(r.UID, g) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.joiners[r.UID]
	if j == nil || j.change != g.ID {
		h.joiners[r.UID] = &joiner{change: g.ID}
		wait.Wake(h.joins)
		return false
	}
	return j.known
}

// askBases asks for the bases of joining members until done is closed.
func (h *Host) askBases(done <-chan struct{}) {
	retry := time.NewTimer(baseRetry)
	defer retry.Stop()
	for {
		again := retry.C
		retry.Reset(baseRetry)
		if left := each.Of(h.baseless(), maxOpening, h.askBase); left == nil {
			again = nil
		}
		select {
		case <-h.joins:
		case <-again:
		case <-done:
			return
		}
	}
}

// baseless returns the queues whose members here wait for a base. It forgets those that no longer join.
func (h *Host) baseless() (waiting []id.QueueUID) {
	v := h.cfg.Views.View()
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, j := range h.joiners {
		var g *catalog.MemberChange
		if r, exists := v.QueueByUID(uid); exists {
			g = Joins(r, h.cfg.Node)
		}
		if g == nil || g.ID != j.change {
			delete(h.joiners, uid)
		} else if !j.known {
			waiting = append(waiting, uid)
		}
	}
	return waiting
}

// askBase asks for the base of one member. The error says that it has to be asked for again.
func (h *Host) askBase(uid id.QueueUID) error {
	r, exists := h.cfg.Views.View().QueueByUID(uid)
	if !exists {
		return nil
	}
	base, err := h.findBase(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	g, j := Joins(r, h.cfg.Node), h.joiners[uid]
	if j == nil || g == nil || j.change != g.ID {
		return nil
	}
	if err != nil {
		if j.waits == nil || j.waits.Error() != err.Error() {
			h.cfg.Logger.Warn("a member that joins cannot begin yet: the queue's leader has to say how far the queue is",
				"queue", uid.String(), "change", j.change, "error", err)
		}
		j.waits = err
		return err
	}
	j.base, j.known, j.waits = base, true, nil
	wait.Wake(h.woken)
	return nil
}

// findBase asks a queue's members until one gives a base. It is zero if the leader is of an older build, whose members
// begin without.
func (h *Host) findBase(r *catalog.QueueRecord) (raftfsm.Base, error) {
	var errs []error
	for _, n := range r.Members {
		if n == h.cfg.Node {
			continue
		}
		base, err := h.baseAt(r.UID, n)
		if err == nil {
			return base, nil
		}
		errs = append(errs, fmt.Errorf("node %q: %w", n, err))
	}
	return raftfsm.Base{}, errors.Join(errs...)
}

// errNotLeading means that a node does not lead the queue.
var errNotLeading = errors.New("it does not lead the queue")

// baseAt asks one node. One of an older build is asked whether it leads instead.
func (h *Host) baseAt(uid id.QueueUID, n id.NodeID) (raftfsm.Base, error) {
	ctx, cancel := context.WithTimeout(h.cfg.Life, baseTimeout)
	defer cancel()
	peer, err := h.cfg.Transport.Client(n)
	if err != nil {
		return raftfsm.Base{}, err
	}
	a, err := metadata.AskBase(ctx, peer, uid.Group())
	switch {
	case err != nil:
		return raftfsm.Base{}, err
	case a.NotLeader:
		return raftfsm.Base{}, errNotLeading
	case !a.Older:
		return a.Base, nil
	}
	s, err := peer.QueueStatus(ctx, &nodev1.QueueStatusRequest{Queue: uint64(uid), MemberOnly: true})
	if err == nil && id.NodeID(s.GetLeader()) != n {
		err = errNotLeading
	}
	return raftfsm.Base{}, err
}

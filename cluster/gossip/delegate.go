package gossip

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// claimTime is how long a newer epoch at another address counts as alive before gossip
// has taken it over; it covers the time in which gossip notices that the old address is
// dead.
const claimTime = 30 * time.Second

// delegate is what memberlist calls, with its locks held: nothing here blocks or calls
// back.
type delegate struct {
	m    *Members
	meta []byte
}

// NodeMeta implements memberlist.Delegate; Validate saw to the size.
func (d delegate) NodeMeta(int) []byte { return d.meta }

// NotifyMsg implements memberlist.Delegate.
func (d delegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (d delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (d delegate) MergeRemoteState([]byte, bool) {}

// NotifyAlive implements memberlist.AliveDelegate: it refuses news about incarnations that are over. News about this
// node itself always pass: memberlist contradicts them.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	if n.Name == string(d.m.config.Node.ID) {
		return nil
	}
	node, err := readMeta(n.Meta)
	if err != nil {
		return err
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if k := d.m.nodes[id.NodeID(n.Name)]; k.supersedes(node) {
		return fmt.Errorf("epoch %d is over, epoch %d was seen", node.Epoch, k.Epoch)
	}
	return nil
}

// supersedes reports whether news about a node are outdated. The epochs of two stores of one id do not show which
// store is right: the catalog knows, and gossip takes whichever lives.
func (k *known) supersedes(n Node) bool {
	return k != nil && n.Epoch < k.Epoch && (n.Store == k.Store || k.Alive)
}

// NotifyJoin implements memberlist.EventDelegate.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.m.seen(n, true, false) }

// NotifyUpdate implements memberlist.EventDelegate.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.m.seen(n, true, false) }

// NotifyLeave implements memberlist.EventDelegate.
func (d delegate) NotifyLeave(n *memberlist.Node) { d.m.seen(n, false, false) }

// NotifyConflict implements memberlist.ConflictDelegate: the name is known at another
// address. If it is a newer incarnation, its news count at once; memberlist itself takes
// the new address when the old one is found dead. A second process reports it itself, too.
func (d delegate) NotifyConflict(old, other *memberlist.Node) {
	a, errA := readMeta(old.Meta)
	b, errB := readMeta(other.Meta)
	switch {
	case errA != nil || errB != nil:
	case b.Epoch > a.Epoch:
		d.m.seen(other, true, true)
	case b.Epoch == a.Epoch && d.m.twiceFirst(id.NodeID(other.Name)):
		d.m.log.Error("two processes use the same node id and epoch: give every node its own id and data directory",
			"node", other.Name, "epoch", uint64(b.Epoch), "address", old.Address(), "other_address", other.Address())
	}
}

// twiceFirst reports whether this is the first time that two processes are seen as one node.
func (m *Members) twiceFirst(n id.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.nodes[n]
	if k == nil || k.twice {
		return false
	}
	k.twice = true
	return true
}

// seen handles news about another node.
func (m *Members) seen(n *memberlist.Node, alive, claim bool) {
	if n.Name == string(m.config.Node.ID) {
		return
	}
	node, err := readMeta(n.Meta)
	if err != nil {
		m.log.Warn("node ignored", "node", n.Name, "error", err)
		return
	}
	node.ID, node.Alive, node.GossipAddr = id.NodeID(n.Name), alive, n.Address()
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.nodes[node.ID]
	if k.supersedes(node) {
		return
	}
	if k == nil {
		k = &known{}
		m.nodes[node.ID] = k
	}
	changed := k.Node != node
	k.Node = node
	k.claimed, k.lost = time.Time{}, time.Time{}
	if claim {
		k.claimed = time.Now()
	}
	if !alive {
		k.lost = time.Now()
	}
	if changed {
		m.newsLocked(node.ID)
	}
}

// newsLocked has a node's state reported. The caller holds mu.
func (m *Members) newsLocked(n id.NodeID) {
	if !slices.Contains(m.unreported, n) {
		m.unreported = append(m.unreported, n)
	}
	for _, c := range []chan struct{}{m.wake, m.alive} {
		wait.Wake(c)
	}
}

// handOut hands out events, the oldest news first, each with the node's newest state.
func (m *Members) handOut() {
	for {
		var to chan<- Event
		var e Event
		m.mu.Lock()
		if len(m.unreported) > 0 {
			to, e = m.events, Event{Node: m.nodes[m.unreported[0]].Node}
		}
		m.mu.Unlock()
		select {
		case to <- e:
			m.mu.Lock()
			if m.nodes[e.Node.ID].Node == e.Node {
				m.unreported = m.unreported[1:]
			}
			m.mu.Unlock()
		case <-m.wake:
		case <-m.ctx.Done():
			return
		}
	}
}

// claims reports whether a node is claimed to be at another address.
func (m *Members) claims() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.nodes {
		if !k.claimed.IsZero() {
			return true
		}
	}
	return false
}

// expireClaims takes claims back that gossip did not confirm in time.
func (m *Members) expireClaims(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, k := range m.nodes {
		if !k.claimed.IsZero() && now.Sub(k.claimed) > claimTime {
			k.claimed, k.Alive, k.lost = time.Time{}, false, now
			m.newsLocked(n)
		}
	}
}

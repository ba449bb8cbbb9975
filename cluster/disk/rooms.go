package disk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
)

// Rooms reports which queues have room for messages. All methods may be called concurrently.
type Rooms struct {
	Board *Board
	View  func() *catalog.View
	// Connected reports whether there is a connection to another node.
	Connected func(id.NodeID) bool
}

// Admit refuses what would make a queue grow, if too few of its members have room
// (ErrNoSpace).
func (r *Rooms) Admit(uid id.QueueUID) error {
	err := r.Of(uid)
	if err != nil {
		r.Board.refused.Add(1)
	}
	return err
}

// Of returns nil, or ErrNoSpace with what is short if a queue takes no messages because it lacks space.
func (r *Rooms) Of(uid id.QueueUID) error {
	if !r.Board.scarce.Load() {
		return nil
	}
	q, ok := r.View().QueueByUID(uid)
	if !ok || r.enough(q.Members) {
		return nil
	}
	return fmt.Errorf("%w: queue %q in vhost %q takes no messages: fewer than a majority of its members %q have room: %s",
		ErrNoSpace, q.Name, q.VHost, q.Members, r.Shortage())
}

// enough reports whether a majority of members is connected and has room. If no member is short of room, it returns
// true: then space is not the reason if they are too few.
func (r *Rooms) enough(members []id.NodeID) bool {
	good, scarce := 0, false
	for _, m := range members {
		if !r.Board.Fine(m) {
			scarce = true
			continue
		}
		if m == r.Board.node || r.Connected(m) {
			good++
		}
	}
	return !scarce || good > len(members)/2
}

// Shortage names the nodes that are short of room and what to do; "" if none is.
func (r *Rooms) Shortage() string {
	b := r.Board
	b.mu.Lock()
	all := map[id.NodeID]State{b.node: b.own}
	v := r.View()
	for n, p := range b.peers {
		if _, member := v.Node(n); member {
			all[n] = p.State
		}
	}
	b.mu.Unlock()
	var short []string
	for n, s := range all {
		if s.Pressure != wal.PressureNone {
			short = append(short, s.describe(n))
		}
	}
	if len(short) == 0 {
		return ""
	}
	slices.Sort(short)
	return strings.Join(short, "; ") +
		": free space there or make the volumes larger; consuming, settling, purging and deleting go on and make room"
}

package replica

import "github.com/quorate/quorate/id"

// demand is the line of members that are to be opened before others. First come those for which a client or another node
// waits, oldest first; then those that a policy, a timer or a backup asks for, of which there may be thousands. It only
// computes.
type demand struct {
	waited, others []id.QueueUID        // oldest first; one that somebody waits for since it came is left in others too
	asked          map[id.QueueUID]bool // who is in line; true: in waited
	row            int                  // how many were taken from waited since the last one of others
}

// waitedInRow is how many members that somebody waits for are opened before one of the others, so that the others are
// opened too.
const waitedInRow = 8

func newDemand() demand { return demand{asked: map[id.QueueUID]bool{}} }

// add puts a member in line. If it is there already, it moves forward if somebody waits for it now.
func (d *demand) add(uid id.QueueUID, waits bool) {
	if was, there := d.asked[uid]; there && (was || !waits) {
		return
	}
	d.asked[uid] = waits
	if waits {
		d.waited = append(d.waited, uid)
	} else {
		d.others = append(d.others, uid)
	}
}

// next takes the member whose turn it is; false: none waits.
func (d *demand) next() (id.QueueUID, bool) {
	for len(d.asked) > 0 {
		uid, waits := d.first()
		if is, there := d.asked[uid]; there && is == waits {
			delete(d.asked, uid)
			return uid, true
		}
	}
	d.waited, d.others = nil, nil
	return 0, false
}

// first takes the first one of waited, or of others. One of them is not empty.
func (d *demand) first() (uid id.QueueUID, waits bool) {
	if len(d.waited) > 0 && (d.row < waitedInRow || len(d.others) == 0) {
		uid, d.waited = d.waited[0], d.waited[1:]
		d.row++
		return uid, true
	}
	uid, d.others = d.others[0], d.others[1:]
	d.row = 0
	return uid, false
}

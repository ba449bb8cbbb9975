package membership

import (
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// mending paces the rebuilding of a member: what stops the member may be in the log, and so stop it each time.
type mending struct {
	tries int
	next  time.Time
}

const (
	mendAgain   = 2 * time.Second // after the first attempt, and twice as long after each
	mendLongest = time.Hour
)

func (m *mending) due(now time.Time) bool { return !now.Before(m.next) }

func (m *mending) began(now time.Time) {
	m.next = now.Add(min(mendAgain<<min(m.tries, 12), mendLongest))
	m.tries++
}

// Repair has lost members of this node rebuilt, as long as it runs.
func (rc *Reconciler) Repair() {
	begun := map[id.QueueUID]*mending{}
	for wait := repairTick; ; {
		select {
		case <-time.After(wait):
		case <-rc.cfg.Members.Mends():
		case <-rc.cfg.Life.Done():
			return
		}
		wait = repairTick
		v := rc.cfg.View()
		if !rc.cfg.Members.Current(v) {
			continue
		}
		lost := rc.cfg.Members.LostMembers()
		for _, uid := range lost {
			if r, ok := v.QueueByUID(uid); ok {
				if begun[uid] == nil {
					begun[uid] = &mending{}
				}
				rc.repairOne(r, begun[uid])
			}
		}
		if len(lost) == 0 {
			wait = repairRest
		}
	}
}

// repairOne asks for the member to be taken out and to join anew, or gives up a change that cannot succeed: a join that has
// failed, or one that keeps the member from being rebuilt.
func (rc *Reconciler) repairOne(r *catalog.QueueRecord, m *mending) {
	var ask catalog.Command
	g, member := r.Change, slices.Contains(r.Members, rc.cfg.Node)
	switch {
	case g != nil && g.Join == rc.cfg.Node && !member && !g.Cancelled && rc.cfg.Members.Begun(r.UID, g):
		ask = &catalog.CancelMemberChange{UID: r.UID, Change: g.ID}
	case g != nil && !g.Cancelled && member && waitsFor(r, rc.cfg.Node):
		rc.cfg.Logger.Warn("a change of members is taken back: this node's member has lost its data and is built anew first",
			"queue", r.Name, "vhost", r.VHost, "change", g.String())
		ask = &catalog.CancelMemberChange{UID: r.UID, Change: g.ID}
	case g == nil && member && len(r.Members) > 1 && m.due(time.Now()):
		ask = &catalog.BeginMemberChange{UID: r.UID, Join: rc.cfg.Node, Leave: rc.cfg.Node}
	default:
		return
	}
	_, err := rc.cfg.Catalog.Propose(rc.cfg.Life, ask)
	if _, begins := ask.(*catalog.BeginMemberChange); err == nil && begins {
		m.began(time.Now())
	}
	if err != nil && rc.cfg.Life.Err() == nil {
		rc.cfg.Logger.Warn("a lost member cannot be built anew yet", "queue", r.Name, "vhost", r.VHost, "error", err)
	}
}

// waitsFor reports whether the change of a queue takes another member out first, and waits for this lost one, without
// which the members that stay have no majority. Each would wait for the other for ever, because only one change is
// carried out at a time.
func waitsFor(r *catalog.QueueRecord, lost id.NodeID) bool {
	g, stay := r.Change, len(r.Members)-1
	leaves := g.Leave != "" && g.Leave != lost && (g.Join == "" || g.Join == g.Leave)
	return leaves && stay-1 < stay/2+1
}

package replica

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// A node writes what it keeps about hibernating members to disk, so that they stay closed over a
// restart. A record holds for a log that ends at the index and term in the record, however old the record
// is. If a member was led, voted or got an entry since then, it has another term or another last
// entry; then it is opened. So an old or missing record only costs time.
const (
	asleepFile = "asleep"
	// recordsEvery is the shortest interval between two versions of the file.
	recordsEvery = 30 * time.Second
	// maxSpareBytes limits what is recorded of figures that this node shows only while another one is away: the file is not to
	// become so large for them that it cannot be read.
	maxSpareBytes = 16 << 20
	// dueStagger is how much later each of the other nodes wakes a queue that has something to do
	// than the leader's node, in case that node is not there.
	dueStagger = 2 * time.Second
)

// hibernationRecord is one line of the file, which also has the queue's number.
type hibernationRecord struct {
	Term    uint64            `json:"term"`
	Last    uint64            `json:"last"`
	Due     int64             `json:"due,omitempty"` // in ms of the epoch, as of RestingGroup
	Leader  id.NodeID         `json:"leader"`
	Figures *quorumq.Overview `json:"figures,omitempty"`
	Status  []byte            `json:"status,omitempty"` // a nodev1.GroupStatus
	// Spare is asleep.spare. Older builds ignore it: they would show figures on every node that records any.
	Spare json.RawMessage `json:"spare,omitempty"`
}

// writeHibernationRecords writes down which members hibernate, if some were closed since the last version.
func (h *Host) writeHibernationRecords() {
	h.mu.Lock()
	if !h.unsaved {
		h.mu.Unlock()
		return
	}
	h.unsaved, h.savedAt = false, time.Now()
	sleepers := make(map[id.QueueUID]*asleep, len(h.asleep))
	for uid, a := range h.asleep {
		sleepers[uid] = a
	}
	h.mu.Unlock()
	r, spares := make(sealed.Record, 0, len(sleepers)), 0
	for uid, a := range sleepers {
		n := hibernationRecord{Term: a.term, Last: a.last, Due: a.due, Leader: a.leader, Figures: a.kept}
		if spares+len(a.spare) <= maxSpareBytes {
			n.Spare, spares = a.spare, spares+len(a.spare)
		}
		var err error
		if a.status != nil {
			n.Status, err = proto.Marshal(a.status)
		}
		line, err2 := json.Marshal(n)
		if err := errors.Join(err, err2); err != nil {
			h.cfg.Logger.Warn("a queue that hibernates is not recorded", "queue", uid.String(), "error", err)
			continue
		}
		r = r.With(strconv.FormatUint(uint64(uid), 10), string(line))
	}
	if err := sealed.Write(h.cfg.Dir.Path(), asleepFile, 0, r); err != nil {
		h.cfg.Logger.Warn("queues that hibernate are not recorded, and will be opened at the next start", "error", err)
	}
}

// writeHibernationRecordsSoon is writeHibernationRecords, but not more often than recordsEvery.
func (h *Host) writeHibernationRecordsSoon() {
	h.mu.RLock()
	soon := time.Since(h.savedAt) < recordsEvery
	h.mu.RUnlock()
	if !soon {
		h.writeHibernationRecords()
	}
}

// readHibernationRecords takes members for hibernating if their records hold. It is called once, before members
// are opened.
func (h *Host) readHibernationRecords() {
	if h.cfg.HibernateAfter <= 0 {
		return
	}
	r, err := sealed.ReadCopy(h.cfg.Dir.Path(), asleepFile, 0)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			h.cfg.Logger.Warn("records of queues that hibernate cannot be read: all are opened", "error", err)
		}
		return
	}
	for _, f := range r {
		uid, a, err := readHibernationRecord(f)
		if err != nil {
			h.cfg.Logger.Warn("the record of a queue that hibernates cannot be read: it is opened", "error", err)
			continue
		}
		if term, last, ok := h.cfg.Storage.Ends(uid.Group()); !ok || term != a.term || last != a.last {
			continue
		}
		h.asleep[uid] = a
		h.loads.leads(uid, a.leader)
	}
}

// readHibernationRecord returns the record of one hibernated queue, or what is wrong with it.
func readHibernationRecord(f sealed.Field) (id.QueueUID, *asleep, error) {
	uid, err := strconv.ParseUint(f.Key, 10, 64)
	var n hibernationRecord
	err = errors.Join(err, json.Unmarshal([]byte(f.Value), &n))
	a := &asleep{leader: n.Leader, kept: n.Figures, spare: n.Spare, term: n.Term, last: n.Last, due: n.Due}
	if err == nil && len(n.Status) > 0 {
		a.status = &nodev1.GroupStatus{}
		err = proto.Unmarshal(n.Status, a.status)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("cluster: hibernation record %q of queue %q: %w", f.Value, f.Key, err)
	}
	return id.QueueUID(uid), a, nil
}

// remember sets the timer of a member that was recorded as hibernating and is still a member, if it
// has something to do. The reconcile loop calls it when it sees the queue for the first time.
func (h *Host) remember(uid id.QueueUID, a *asleep) {
	if a.due != 0 {
		h.timers.Set(uid, 0, a.due+h.stagger(uid, a.leader).Milliseconds())
	}
}

// stagger returns how much later than the leader's node this node wakes a queue that has something
// to do.
func (h *Host) stagger(uid id.QueueUID, leader id.NodeID) time.Duration {
	r, exists := h.cfg.Views.View().QueueByUID(uid)
	if !exists || leader == h.cfg.Node {
		return 0
	}
	return time.Duration(1+slices.Index(r.Members, h.cfg.Node)) * dueStagger
}

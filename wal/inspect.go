package wal

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// SegmentInfo is the result of Inspect.
type SegmentInfo struct {
	Name    string
	Seq     uint32
	Bytes   int64 // of the file
	End     int64 // of the records
	Records int   // intact ones
	Sealed  bool  // footer and trailer are intact
	// Damage lists the damaged places; it is empty if the segment is intact. Bytes behind the
	// records of an unsealed segment are not damage: a crash leaves them.
	Damage []*CorruptError
}

// Record is an intact record of a segment.
type Record struct {
	Offset int64
	Bytes  int64
	Kind   Kind
	Group  id.GroupID

	// Of an entry or a retained entry.
	Index      uint64
	Term       uint64
	Type       raft.LogType
	AppendedAt time.Time // zero if unknown
	Data       []byte    // valid during the call

	State *StateInfo // of a state, nil if it is damaged
	Keep  *KeepInfo  // of a keep, nil if it is damaged
}

// StateInfo is the content of a state record.
type StateInfo struct {
	Cause    Cause  `json:"cause"`
	First    uint64 `json:"first"` // of the log
	Last     uint64 `json:"last"`  // of the log; First-1 if it is empty
	Term     uint64 `json:"term"`
	VoteTerm uint64 `json:"vote_term"`
	VoteFor  string `json:"vote_for"` // empty if there was no vote
	Lost     bool   `json:"lost"`
}

// KeepInfo is the content of a keep record. Of the entries with an index in [Lo, Hi), it keeps
// those of the log below Bound that are in Left, and those from snapshots that are in Brought.
// Pairs are half-open ranges.
type KeepInfo struct {
	Lo      uint64      `json:"lo"`
	Hi      uint64      `json:"hi"`
	Bound   uint64      `json:"bound"`
	Left    [][2]uint64 `json:"left"`
	Brought [][2]uint64 `json:"brought"`
}

// Segments returns the names of a directory's segments in the order of the stream.
func Segments(dir vfs.Dir) ([]string, error) {
	names, err := dir.List()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, ok := parseName(name)
		return !ok
	}), nil
}

// Inspect reads a segment, checks every checksum and calls visit for every intact record. It
// changes nothing and takes no lock, so a log in use may look truncated. The error comes from
// reading or from visit.
func Inspect(dir vfs.Dir, name string, visit func(Record) error) (info SegmentInfo, err error) {
	x := inspection{dir: dir, visit: visit, info: SegmentInfo{Name: name}}
	seq, ok := parseName(name)
	if !ok {
		return x.info, fmt.Errorf("wal: %q is not a segment's name, which is 8 hexadecimal digits and %s", name, segmentSuffix)
	}
	x.info.Seq = seq
	f, err := dir.Open(name)
	if err != nil {
		return x.info, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if x.info.Bytes, err = f.Size(); err != nil {
		return x.info, err
	}
	secret, err := readHeader(f, seq)
	if err != nil {
		x.damage(0, err.Error())
		return x.info, nil
	}
	salt := saltOf(seq, secret)
	footer, end, err := sealedFooter(f, x.info.Bytes, seq, salt)
	if err != nil {
		return x.info, err
	}
	if footer != nil {
		x.info.End, x.info.Sealed = end, true
		return x.info, x.sealed(f, salt, footer)
	}
	return x.info, x.unsealed(f, salt)
}

// inspection is one Inspect under way.
type inspection struct {
	dir   vfs.Dir
	visit func(Record) error
	info  SegmentInfo
}

// damage records a fault; the inspection continues.
func (x *inspection) damage(at int64, reason string) {
	x.info.Damage = append(x.info.Damage, &CorruptError{
		Segment: filepath.Join(x.dir.Path(), x.info.Name), Offset: at, Reason: reason, Remedy: remedyGroup,
	})
}

// sealed reads the records that the footer names, each for itself.
func (x *inspection) sealed(f vfs.File, salt uint32, footer []byte) error {
	w := window{f: f, size: x.info.Bytes}
	return parseItems(footer, func(it item) error {
		what := fmt.Sprintf("%s of group %s, index %d", it.kind, it.group, it.index)
		if it.at+it.size > x.info.End {
			x.damage(it.at, what+" is named by the footer but not there")
			return nil
		}
		b, err := w.at(it.at, int(it.size))
		if err != nil {
			return err
		}
		r, ok := parseRecord(b, salt)
		if !ok || r.kind != it.kind || r.group != it.group || r.index != it.index {
			x.damage(it.at, what+" has a wrong checksum")
			return nil
		}
		return x.record(it.at, &r)
	})
}

// unsealed scans for records.
func (x *inspection) unsealed(f vfs.File, salt uint32) error {
	end, footer, err := scanRecords(f, headerBytes, x.info.Bytes, salt, x.record)
	x.info.End = end
	if err != nil || footer {
		if footer {
			x.damage(x.info.Bytes-trailerBytes, "the trailer is damaged; the next start of the node makes it again")
		}
		return err
	}
	expected, err := trailerOf(f, x.info.Bytes, x.info.Seq, salt)
	if err != nil {
		return err
	}
	v, err := lookBehind(f, end, x.info.Bytes, expected, salt)
	if err != nil {
		return err
	}
	for i, h := range v.holes {
		what := "nothing says whose records were here: all groups of the node may be hit"
		if items, known := v.lost(h); known {
			what = fmt.Sprintf("%d damaged, the first is %s of group %s, index %d", len(items), items[0].kind, items[0].group, items[0].index)
		}
		x.damage(h.at, what)
		until := v.end
		if i+1 < len(v.holes) {
			until = v.holes[i+1].at
		}
		if _, _, err := scanRecords(f, h.end, until, salt, x.record); err != nil {
			return err
		}
	}
	x.info.End = v.end
	return nil
}

// record shows a record as what it is; lists of the segment itself are not shown.
func (x *inspection) record(at int64, r *record) error {
	if r.group == listGroup {
		return nil
	}
	x.info.Records++
	out := Record{Offset: at, Bytes: int64(r.size()), Kind: r.kind, Group: r.group}
	switch r.kind {
	case KindEntry, KindRetained:
		var e raft.Log
		r.entry(&e)
		out.Index, out.Term, out.Type, out.AppendedAt, out.Data = e.Index, e.Term, e.Type, e.AppendedAt, e.Data
	case KindState:
		out.State = x.state(at, r)
	case KindKeep:
		out.Keep = x.keep(at, r)
	case KindDeleted, KindFooter:
	}
	return x.visit(out)
}

// state records an unreadable state as damage.
func (x *inspection) state(at int64, r *record) *StateInfo {
	st, err := parseState(r)
	if err != nil {
		x.damage(at, "state: "+err.Error())
		return nil
	}
	return &StateInfo{
		Cause: Cause(r.typ), First: st.first, Last: st.next - 1, Term: st.term,
		VoteTerm: st.voteTerm, VoteFor: string(st.voteFor), Lost: st.lost,
	}
}

// keep records an unreadable keep as damage.
func (x *inspection) keep(at int64, r *record) *KeepInfo {
	k, err := parseKeep(r)
	if err != nil {
		x.damage(at, "keep: "+err.Error())
		return nil
	}
	return &KeepInfo{Lo: k.lo, Hi: k.hi, Bound: k.bound, Left: pairs(k.left), Brought: pairs(k.brought)}
}

// pairs is for output: the spans' type is the log's own.
func pairs(spans []span) [][2]uint64 {
	var all [][2]uint64
	for _, s := range spans {
		all = append(all, [2]uint64{s.lo, s.hi})
	}
	return all
}

// String returns the spans as the dump shows them.
func (k *KeepInfo) String() string {
	var b strings.Builder
	show := func(name string, spans [][2]uint64) {
		fmt.Fprintf(&b, " %s", name)
		if len(spans) == 0 {
			b.WriteString(" none")
		}
		for _, s := range spans {
			if s[1] == s[0]+1 {
				fmt.Fprintf(&b, " %d", s[0])
			} else {
				fmt.Fprintf(&b, " %d-%d", s[0], s[1]-1)
			}
		}
	}
	fmt.Fprintf(&b, "from %d below %d:", k.Lo, k.Bound)
	show("left", k.Left)
	show("brought", k.Brought)
	return b.String()
}

package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/quorate/quorate/wal"
)

// printer shows what is found, in the order in which it is found, and groups at the end.
type printer interface {
	record(segment string, r *wal.Record) error
	segment(info *wal.SegmentInfo, groups int) error
	finish(d *dump) error
}

// table prints for people.
type table struct {
	out  io.Writer
	o    options
	rows *tabwriter.Writer // of segments; they are shown behind the records
}

// newTable begins the table of segments; its columns are aligned when finish writes it.
func newTable(out io.Writer, o options) *table {
	t := &table{out: out, o: o, rows: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	_, _ = fmt.Fprintln(t.rows, "segment\tbytes\tend\trecords\tgroups\tstate")
	return t
}

// record prints a record as a line at once, before all tables.
func (t *table) record(segment string, r *wal.Record) error {
	_, err := fmt.Fprintf(t.out, "%s %10d %8d  %-8s %s", segment, r.Offset, r.Bytes, r.Kind, r.Group)
	if err != nil {
		return err
	}
	switch {
	case r.State != nil:
		s := r.State
		_, err = fmt.Fprintf(t.out, " %s: log %s, term %d, vote %s", s.Cause, bounds(s), s.Term, voteOf(s))
		if s.Lost {
			_, err = fmt.Fprint(t.out, ", lost")
		}
	case r.Keep != nil:
		_, err = fmt.Fprintf(t.out, " %s", r.Keep)
	case r.Kind != wal.KindDeleted:
		_, err = fmt.Fprintf(t.out, " index %d, term %d, %s, %d bytes", r.Index, r.Term, r.Type, len(r.Data))
		if t.o.data {
			_, err = fmt.Fprintf(t.out, "\n%s", hex.Dump(r.Data))
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(t.out)
	}
	return err
}

// bounds prints the first and last index of a log, or where an empty one begins.
func bounds(s *wal.StateInfo) string {
	if s.Last < s.First {
		return fmt.Sprintf("empty at %d", s.First)
	}
	return fmt.Sprintf("%d..%d", s.First, s.Last)
}

// voteOf prints a group's last vote.
func voteOf(s *wal.StateInfo) string {
	if s.VoteFor == "" {
		return "none"
	}
	return fmt.Sprintf("%s in term %d", s.VoteFor, s.VoteTerm)
}

// segment adds a row, with the damage below it.
func (t *table) segment(info *wal.SegmentInfo, groups int) error {
	state := "sealed"
	if !info.Sealed {
		state = "not sealed"
	}
	if n := len(info.Damage); n > 0 {
		state += fmt.Sprintf(", %d damaged", n)
	}
	_, err := fmt.Fprintf(t.rows, "%s\t%d\t%d\t%d\t%d\t%s\n", info.Name, info.Bytes, info.End, info.Records, groups, state)
	for _, d := range info.Damage {
		if err == nil {
			_, err = fmt.Fprintf(t.rows, "  offset %d: %s\n", d.Offset, d.Reason)
		}
	}
	return err
}

// finish writes the table of segments and then that of groups.
func (t *table) finish(d *dump) error {
	if d.o.records {
		if _, err := fmt.Fprintln(t.out); err != nil {
			return err
		}
	}
	if err := t.rows.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(t.rows, "\ngroup\tentries\tretained\tstates\tbytes\tnewest state")
	for _, group := range slices.Sorted(maps.Keys(d.groups)) {
		g := d.groups[group]
		state := "none"
		switch {
		case g.Deleted:
			state = "deleted"
		case g.State != nil:
			state = fmt.Sprintf("log from %d, term %d, vote %s", g.State.First, g.State.Term, voteOf(g.State))
			if g.State.Lost {
				state += ", lost"
			}
		}
		_, _ = fmt.Fprintf(t.rows, "%s\t%d\t%d\t%d\t%d\t%s\n", group, g.Entries, g.Retained, g.States, g.Bytes, state)
	}
	return t.rows.Flush()
}

// lines prints a JSON object on each line; its field "what" says which.
type lines struct {
	out *json.Encoder
	o   options
}

func newJSON(out io.Writer, o options) *lines { return &lines{json.NewEncoder(out), o} }

// jsonRecord is a record on a line of its own.
type jsonRecord struct {
	What       string         `json:"what"` // record
	Segment    string         `json:"segment"`
	Offset     int64          `json:"offset"`
	Bytes      int64          `json:"bytes"`
	Kind       string         `json:"kind"`
	Group      uint64         `json:"group"`
	Index      uint64         `json:"index,omitempty"`
	Term       uint64         `json:"term,omitempty"`
	Type       string         `json:"type,omitempty"`
	AppendedAt *time.Time     `json:"appended_at,omitempty"`
	DataBytes  int            `json:"data_bytes,omitempty"`
	Data       string         `json:"data,omitempty"` // hexadecimal
	State      *wal.StateInfo `json:"state,omitempty"`
	Keep       *wal.KeepInfo  `json:"keep,omitempty"`
}

// record leaves out the fields that the kind of record does not have.
func (l *lines) record(segment string, r *wal.Record) error {
	j := jsonRecord{
		What: "record", Segment: segment, Offset: r.Offset, Bytes: r.Bytes, Kind: r.Kind.String(), Group: uint64(r.Group),
		Index: r.Index, Term: r.Term, State: r.State, Keep: r.Keep, DataBytes: len(r.Data),
	}
	if r.Kind == wal.KindEntry || r.Kind == wal.KindRetained {
		j.Type = r.Type.String()
	}
	if !r.AppendedAt.IsZero() {
		at := r.AppendedAt.UTC()
		j.AppendedAt = &at
	}
	if l.o.data {
		j.Data = hex.EncodeToString(r.Data)
	}
	return l.out.Encode(j)
}

// jsonDamage is a place of a segment that cannot be read.
type jsonDamage struct {
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

// jsonSegment is a segment on a line of its own.
type jsonSegment struct {
	What    string       `json:"what"` // segment
	Name    string       `json:"name"`
	Bytes   int64        `json:"bytes"`
	End     int64        `json:"end"`
	Records int          `json:"records"`
	Groups  int          `json:"groups"`
	Sealed  bool         `json:"sealed"`
	Damage  []jsonDamage `json:"damage"`
}

// segment prints a segment; without damage, damage is [].
func (l *lines) segment(info *wal.SegmentInfo, groups int) error {
	j := jsonSegment{
		What: "segment", Name: info.Name, Bytes: info.Bytes, End: info.End, Records: info.Records,
		Groups: groups, Sealed: info.Sealed, Damage: []jsonDamage{},
	}
	for _, d := range info.Damage {
		j.Damage = append(j.Damage, jsonDamage{d.Offset, d.Reason})
	}
	return l.out.Encode(j)
}

// jsonGroup is a group on a line of its own, with its counts over all segments that were read.
type jsonGroup struct {
	What string `json:"what"` // group
	*groupInfo
}

// finish prints the groups, sorted by their number.
func (l *lines) finish(d *dump) error {
	for _, group := range slices.Sorted(maps.Keys(d.groups)) {
		if err := l.out.Encode(jsonGroup{"group", d.groups[group]}); err != nil {
			return err
		}
	}
	return nil
}

package raftfsm

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// Stored is the state on disk of a member that does not run.
type Stored struct {
	Term                uint64 // the newest term that the member knows
	LastTerm, LastIndex uint64 // of its log, or of its snapshot if that is newer
	Voters, Nonvoters   []id.NodeID
}

// Newer reports whether the log would win an election against another member's.
func (s Stored) Newer(than Stored) bool {
	if s.LastTerm != than.LastTerm {
		return s.LastTerm > than.LastTerm
	}
	return s.LastIndex > than.LastIndex
}

// Resting is a member that does not run, opened for inspection or recovery. It belongs to one
// goroutine.
type Resting struct {
	group id.GroupID
	log   Storage
	snaps *snapshots
}

// OpenResting opens a member by its snapshot directory and its log. The log belongs to the Resting
// from then on, also after an error.
func OpenResting(g id.GroupID, snapshotDir string, log Storage) (*Resting, error) {
	store, err := OpenSnapshots(snapshotDir, log)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	snaps, ok := store.(*snapshots)
	if !ok {
		return nil, errors.Join(fmt.Errorf("raftfsm: snapshots are a %T", store), log.Close())
	}
	return &Resting{group: g, log: log, snaps: snaps}, nil
}

// Close closes the log.
func (m *Resting) Close() error { return m.log.Close() }

// eachEntry calls f with the entries that the member would have behind its snapshot. There are none if the snapshot
// replaces the whole log: it was being installed when the member stopped, and a start drops the log.
func (m *Resting) eachEntry(f func(*raft.Log) error) error {
	at := uint64(0)
	if s := m.snaps.latest(); s != nil {
		if _, _, gone, err := m.snaps.superseded(s); gone || err != nil {
			return err
		}
		at = s.index
	}
	return eachEntry(m.log, at, f)
}

// Inspect returns the member's stored state. It reads the whole log, as a start does.
func (m *Resting) Inspect() (Stored, error) {
	s, err := m.inspect()
	if err != nil {
		return s, fmt.Errorf("raftfsm: group %s: %w", m.group, err)
	}
	return s, nil
}

// inspect reads snapshot and log without raft, as the member would start from them.
func (m *Resting) inspect() (s Stored, err error) {
	if s.Term, err = m.log.GetUint64([]byte(keyTerm)); err != nil && !isNotFound(err) {
		return s, err
	}
	var c raft.Configuration
	if f := m.snaps.latest(); f != nil {
		s.LastTerm, s.LastIndex, c = f.term, f.index, f.configuration
	}
	err = m.eachEntry(func(l *raft.Log) error {
		s.LastTerm, s.LastIndex = l.Term, l.Index
		if l.Type == raft.LogConfiguration {
			c = raft.DecodeConfiguration(l.Data)
		}
		return nil
	})
	for _, member := range c.Servers {
		if member.Suffrage == raft.Voter {
			s.Voters = append(s.Voters, id.NodeID(member.ID))
		} else {
			s.Nonvoters = append(s.Nonvoters, id.NodeID(member.ID))
		}
	}
	s.Term = max(s.Term, s.LastTerm)
	return s, err
}

// Extent describes the end of a member's stored state. For acknowledged entries that the member
// knows to be committed, neither number ever falls.
type Extent struct {
	Term uint64 // its current one
	Last uint64 // index of its last entry, in the log or in the newest snapshot
}

// ExtentOf returns the Extent of a member that does not run.
func ExtentOf(log Storage, snaps raft.SnapshotStore) (e Extent, err error) {
	if e.Term, err = log.GetUint64([]byte(keyTerm)); err != nil && !isNotFound(err) {
		return e, fmt.Errorf("raftfsm: reading a member's term: %w", err)
	}
	if e.Last, err = log.LastIndex(); err != nil {
		return e, fmt.Errorf("raftfsm: reading the end of a member's log: %w", err)
	}
	metas, err := snaps.List()
	if err != nil {
		return e, fmt.Errorf("raftfsm: reading a member's snapshots: %w", err)
	}
	for _, s := range metas {
		e.Last = max(e.Last, s.Index)
	}
	return e, nil
}

// eachEntry calls f with the entries of a log above an index.
func eachEntry(log raft.LogStore, above uint64, f func(*raft.Log) error) error {
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	if last == 0 || last <= above {
		return nil
	}
	if first > above+1 {
		return fmt.Errorf("the log begins at entry %d, but the snapshot ends at %d: %w", first, above, errCorrupt)
	}
	for i := above + 1; i <= last; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if err := f(&l); err != nil {
			return err
		}
	}
	return nil
}

// Replay brings a machine into the state that the member would have if all of its log were
// committed.
func Replay[R, E any](m *Resting, into Machine[R, E]) error {
	if err := replay(m, into); err != nil {
		return fmt.Errorf("raftfsm: group %s: replay: %w", m.group, err)
	}
	return nil
}

// replay applies what the log has, committed or not. An entry of a leader that had lost its term is passed
// over, as members pass over it.
func replay[R, E any](m *Resting, into Machine[R, E]) error {
	if f := m.snaps.latest(); f != nil {
		in, err := os.Open(f.path)
		if err != nil {
			return err
		}
		b, err := f.readMachine(in)
		if err := errors.Join(err, in.Close()); err != nil {
			return err
		}
		if err := into.Restore(b); err != nil {
			return err
		}
	}
	return m.eachEntry(func(l *raft.Log) error {
		if l.Type != raft.LogCommand {
			return nil
		}
		e, err := decodeEntry(m.group, l.Data)
		if err != nil || e.term != l.Term {
			return err
		}
		e.each(func(_ int, slot uint32, header []byte, bodies int) bool {
			_, _, err = into.Apply(Meta{Index: l.Index, FirstSlot: slot, NowMs: e.nowMs}, header, bodies)
			return err == nil
		})
		return err
	})
}

// Force makes the member the start of a group with other voters. It appends a configuration with
// only these voters, and then the commands, to the member's log, in a term of their own, which must
// be above every term that the voters know. The member must have the newest log of the voters. When
// the group next elects a leader, all entries of that log are committed, even those that no
// majority had. What Force writes is durable when it returns.
//
// A member with empty stores begins as an empty group.
func (m *Resting) Force(term uint64, voters []id.NodeID, nowMs int64, commands []Command) error {
	if err := m.force(term, voters, nowMs, commands); err != nil {
		return fmt.Errorf("raftfsm: group %s: forcing voters %q: %w", m.group, voters, err)
	}
	return nil
}

// force writes a term and a configuration that nobody else has decided on. Only an operator may do that,
// and with all other members lost.
func (m *Resting) force(term uint64, voters []id.NodeID, nowMs int64, commands []Command) error {
	have, err := m.inspect()
	switch {
	case err != nil:
		return err
	case len(voters) == 0:
		return errors.New("a group needs one")
	case term <= have.Term:
		return fmt.Errorf("term %d is not above the known %d", term, have.Term)
	}
	// What a start would drop goes first: it would take the new entries with it.
	if err := m.snaps.recover(); err != nil {
		return err
	}
	// The term comes first: a log must not have an entry of a term that its member does not
	// know.
	if err := m.log.SetUint64([]byte(keyTerm), term); err != nil {
		return err
	}
	var c raft.Configuration
	for _, v := range voters {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(v), Address: raft.ServerAddress(v)})
	}
	entries := []*raft.Log{{Index: have.LastIndex + 1, Term: term, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(c)}}
	for part := range slices.Chunk(commands, defaultMaxBatchCommands) {
		entries = append(entries, &raft.Log{
			Index: have.LastIndex + uint64(len(entries)) + 1, Term: term, Type: raft.LogCommand,
			Data: appendEntry(nil, m.group, entryHead{term: term, nowMs: nowMs}, part),
		})
	}
	if err := m.log.StoreLogs(entries); err != nil {
		return err
	}
	return m.log.Sync()
}

package raftfsm

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// fsm is what raft sees of a group. Raft calls it from one goroutine.
type fsm[R, E any] struct{ g *Group[R, E] }

// Apply implements raft.FSM.
func (f fsm[R, E]) Apply(l *raft.Log) any {
	f.ApplyBatch([]*raft.Log{l})
	return nil
}

// ApplyBatch implements raft.BatchingFSM. Replies go to the proposers directly.
func (f fsm[R, E]) ApplyBatch(logs []*raft.Log) []any {
	f.g.applies.Add(1)
	defer f.g.applies.Add(1)
	commands, used := f.g.commands.Load(), false
	for _, l := range logs {
		if f.g.Failed() != nil {
			break
		}
		switch l.Type {
		case raft.LogCommand:
			if f.g.applyEntry(l); f.g.Failed() != nil {
				continue // the loop ends: the entry does not count as applied
			}
		case raft.LogConfiguration:
			f.g.configured.Store(&configured{index: l.Index, servers: raft.DecodeConfiguration(l.Data).Servers})
			f.g.watch.announce()
			used = true
		default:
		}
		f.g.applied.Store(l.Index)
	}
	f.g.snapshotIfDue()
	f.g.moved(used || f.g.commands.Load() != commands)
	// Raft looks at the answers before the next call, and they are all nil.
	g := f.g
	if len(g.noReplies) < len(logs) {
		g.noReplies = make([]any, len(logs))
	}
	return g.noReplies[:len(logs)]
}

// applyEntry applies the commands of one entry. Whatever is wrong with it stops the
// group here: to go on would make this member differ from the others.
func (g *Group[R, E]) applyEntry(l *raft.Log) {
	e, err := decodeEntry(g.c.Group, l.Data)
	if err != nil {
		g.fail(fmt.Errorf("entry %d of term %d cannot be applied: %w", l.Index, l.Term, err))
		return
	}
	f := g.proposer.land(e.term, e.seq)
	var items []item[R]
	if f != nil {
		items = f.items
	}
	// The proposer believed in another term: the entry is void on every member. So a
	// term's entries all come after its Lead command.
	if e.term != l.Term {
		answer(items, g.notLeader())
		return
	}
	g.entries.Add(1)
	g.compact.count(len(l.Data))
	// A follower has nobody to deliver to: its bodies would only push out others.
	if e.bodies > 0 && g.leading.term.Load() == l.Term && g.held() <= soonBytes {
		g.bodies.cache.add(cacheKey{g.c.Group, l.Index}, e.bodySet())
	}
	if e.lead && f == nil {
		g.cease(0) // another member leads
	}
	if e.lead && f != nil && e.commands == 0 {
		g.begin(l.Term)
	}
	a := applier[R, E]{g: g, log: l, entry: &e, items: items, ours: f != nil}
	if err := a.run(); err != nil {
		answer(a.items, ErrUnknownOutcome)
		g.fail(fmt.Errorf("entry %d of term %d: %w", l.Index, l.Term, err))
	}
}

// applier carries out one entry.
type applier[R, E any] struct {
	g     *Group[R, E]
	log   *raft.Log
	entry *entry
	items []item[R] // not answered yet
	ours  bool      // this member proposed the entry, and has not given it up
}

// run turns a panic of the machine, which is a broken invariant, into an error.
func (a *applier[R, E]) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: machine panicked: %v", errBroken, p)
		}
		if err != nil {
			a.g.acted() // nothing more comes
		}
	}()
	a.entry.each(func(place int, firstSlot uint32, header []byte, bodies int) bool {
		m := Meta{Index: a.log.Index, FirstSlot: firstSlot, NowMs: a.entry.nowMs, More: place+1 < a.entry.commands}
		var reply R
		var effects E
		if reply, effects, err = a.apply(m, header, bodies); err != nil {
			err = fmt.Errorf("command %d of %d: %w", place+1, a.entry.commands, err)
			return false
		}
		a.g.commands.Add(1)
		a.barriers()
		if len(a.items) > 0 {
			done := a.items[0].done
			a.items = a.items[1:]
			done(reply, nil)
		}
		if a.entry.lead && a.ours {
			a.g.begin(a.log.Term)
		}
		a.g.act(a.log.Index, a.log.Term, effects)
		a.g.acted()
		return true
	})
	if err == nil {
		a.barriers()
	}
	return err
}

// barriers answers the barriers in front of the next command.
func (a *applier[R, E]) barriers() {
	var none R
	for len(a.items) > 0 && a.items[0].barrier {
		done := a.items[0].done
		a.items = a.items[1:]
		done(none, nil)
	}
}

// apply takes the lock for one command, so that readers wait for no longer.
func (a *applier[R, E]) apply(m Meta, header []byte, bodies int) (R, E, error) {
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	a.g.unacted = true
	return a.g.machine.Apply(m, header, bodies)
}

// Restore implements raft.FSM. Bodies have been stored by the snapshot store.
func (f fsm[R, E]) Restore(from io.ReadCloser) error {
	f.g.applies.Add(1)
	defer f.g.applies.Add(1)
	for {
		w, ok := from.(raft.ReadCloserWrapper)
		if !ok {
			break
		}
		from = w.WrappedReadCloser()
	}
	r, ok := from.(*snapshotReader)
	if !ok {
		return fmt.Errorf("raftfsm: snapshot comes from a %T: use OpenSnapshots", from)
	}
	if err := f.restore(r); err != nil {
		err = fmt.Errorf("restore snapshot %s: %w", r.file.path, err)
		f.g.fail(err)
		return err
	}
	f.g.configured.Store(&configured{index: r.file.configIndex, servers: r.file.configuration.Servers})
	f.g.applied.Store(r.file.index)
	return nil
}

// restore replaces the machine, and counts anew what was applied since a snapshot.
func (f fsm[R, E]) restore(r *snapshotReader) error {
	b, err := r.machine()
	if err != nil {
		return err
	}
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if err := f.g.machine.Restore(b); err != nil {
		return err
	}
	held := f.g.machine.HeldBytes()
	f.g.compact.bytes.Store(0)
	f.g.compact.last.Store(&footprint{machine: uint64(len(b)), log: held, held: held})
	return nil
}

package cluster

import (
	"errors"
	"fmt"
	"iter"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// catalogMachine runs the catalog in a group and publishes its views. The group
// serialises all calls.
type catalogMachine struct {
	catalog *catalog.Catalog
	views   *views
	events  *happenings // nil: nobody is told
	// nodes is told when nodes have come, gone or are to be taken out; nil: nobody is.
	nodes func()
}

// noEffects is what catalog commands have as effects.
type noEffects struct{}

// Apply carries out a catalog command; one that this build cannot read stops the group. The view is shown when all commands of an entry are carried out: who
// waits for a view of its index must not see it without one of them (EX-15).
func (m *catalogMachine) Apply(meta raftfsm.Meta, header []byte, _ int) (catalog.Reply, noEffects, error) {
	cmd, err := catalog.DecodeCommand(header)
	if err != nil {
		return catalog.Reply{}, noEffects{}, unreadable(err)
	}
	before := m.catalog.View()
	r := m.catalog.Apply(meta.Index, meta.NowMs, cmd)
	if m.nodes != nil && m.catalog.View().NodeSet() != before.NodeSet() {
		m.nodes()
	}
	m.events.applied(cmd, r, before, meta.NowMs)
	if !meta.More {
		m.views.publish(m.catalog.View())
		m.events.entryDone()
	}
	return r, noEffects{}, nil
}

// unreadable tells what a member is to do about bytes that its machine cannot decode. The
// log and the snapshot have checked that they are what was written, so another build wrote them.
func unreadable(err error) error {
	return fmt.Errorf("%w: this build reads version %d of stored state: %w", raftfsm.ErrUnreadable, catalog.NewestVersion, err)
}

// Lead returns nil: the catalog has no effects.
func (m *catalogMachine) Lead(id.NodeID, uint64) []byte { return nil }

// Now returns the latest time of a command.
func (m *catalogMachine) Now() int64 { return m.catalog.View().Now() }

// Freeze returns the catalog of this moment: views never change.
func (m *catalogMachine) Freeze() raftfsm.Frozen { return frozenCatalog{m.catalog.View()} }

// HeldBytes returns nothing: catalog commands have no bodies.
func (m *catalogMachine) HeldBytes() uint64 { return 0 }

type frozenCatalog struct{ view *catalog.View }

// Live yields nothing: catalog commands have no bodies.
func (f frozenCatalog) Live() iter.Seq[raftfsm.BodyRun] { return func(func(raftfsm.BodyRun) bool) {} }

// AppendSnapshot appends the catalog.
func (f frozenCatalog) AppendSnapshot(b []byte) []byte { return f.view.AppendSnapshot(b) }

// Restore replaces the catalog and shows it.
func (m *catalogMachine) Restore(b []byte) error {
	before := m.catalog.View().Index()
	switch err := m.catalog.Restore(b); {
	case errors.Is(err, catalog.ErrNewer):
		return unreadable(err)
	case err != nil:
		return err
	}
	m.events.restored(before, m.catalog.View().Index())
	m.views.publish(m.catalog.View())
	return nil
}

package metadata

import (
	"errors"
	"fmt"
	"iter"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Machine runs the catalog in a group and publishes its views. The group
// serialises all calls.
type Machine struct {
	catalog *catalog.Catalog
	views   *Views
	journal Journal
	nodes   func()
}

// Journal is notified of the outcome of commands, on the apply path. It must not block.
type Journal interface {
	// Applied takes a command of an entry, with the view before it.
	Applied(cmd catalog.Command, r catalog.Reply, before *catalog.View, nowMs int64)
	// EntryDone reports that all commands of an entry were applied.
	EntryDone()
	// Restored reports that a snapshot came in the place of the commands between two indexes.
	Restored(from, to uint64)
}

// NewMachine returns a machine with an empty catalog. nodes is called when nodes have come, gone
// or are to be taken out.
func NewMachine(views *Views, journal Journal, nodes func()) *Machine {
	return &Machine{catalog: catalog.New(), views: views, journal: journal, nodes: nodes}
}

// NewReplay returns a machine that notifies nobody: for reading a catalog that is at rest.
func NewReplay() *Machine {
	c := catalog.New()
	return &Machine{catalog: c, views: NewViews(c.View()), journal: noJournal{}, nodes: func() {}}
}

// View returns the catalog as it is, which Views may not show yet.
func (m *Machine) View() *catalog.View { return m.catalog.View() }

// noJournal keeps no events: a replay has no watchers.
type noJournal struct{}

func (noJournal) Applied(catalog.Command, catalog.Reply, *catalog.View, int64) {}
func (noJournal) EntryDone()                                                   {}
func (noJournal) Restored(uint64, uint64)                                      {}

// NoEffects is what catalog commands have as effects.
type NoEffects struct{}

// Apply carries out a catalog command; one that this build cannot read stops the group. The view is shown when all
// commands of an entry are carried out: callers that wait for a view of its index must not see it without one of them
// (EX-15).
func (m *Machine) Apply(meta raftfsm.Meta, header []byte, _ int) (catalog.Reply, NoEffects, error) {
	cmd, err := catalog.DecodeCommand(header)
	if err != nil {
		return catalog.Reply{}, NoEffects{}, Unreadable(err)
	}
	before := m.catalog.View()
	r := m.catalog.Apply(meta.Index, meta.NowMs, cmd)
	if m.catalog.View().NodeSet() != before.NodeSet() {
		m.nodes()
	}
	m.journal.Applied(cmd, r, before, meta.NowMs)
	if !meta.More {
		m.views.Publish(m.catalog.View())
		m.journal.EntryDone()
	}
	return r, NoEffects{}, nil
}

// Unreadable reports what a member is to do about bytes that its machine cannot decode. The
// log and the snapshot have checked that they are what was written, so another build wrote them.
func Unreadable(err error) error {
	return fmt.Errorf("%w: this build reads version %d of stored state: %w", raftfsm.ErrUnreadable, catalog.NewestVersion, err)
}

// Lead returns nil: the catalog has no effects.
func (m *Machine) Lead(id.NodeID, uint64) []byte { return nil }

// Now returns the latest time of a command.
func (m *Machine) Now() int64 { return m.catalog.View().Now() }

// Freeze returns the catalog of this moment: views never change.
func (m *Machine) Freeze() raftfsm.Frozen { return frozenCatalog{m.catalog.View()} }

// HeldBytes returns nothing: catalog commands have no bodies.
func (m *Machine) HeldBytes() uint64 { return 0 }

// frozenCatalog writes a snapshot from an immutable view, while the machine continues.
type frozenCatalog struct{ view *catalog.View }

// Live yields nothing: catalog commands have no bodies.
func (f frozenCatalog) Live() iter.Seq[raftfsm.BodyRun] { return func(func(raftfsm.BodyRun) bool) {} }

// AppendSnapshot appends the catalog.
func (f frozenCatalog) AppendSnapshot(b []byte) []byte { return f.view.AppendSnapshot(b) }

// Restore replaces the catalog and shows it.
func (m *Machine) Restore(b []byte) error {
	before := m.catalog.View().Index()
	switch err := m.catalog.Restore(b); {
	case errors.Is(err, catalog.ErrNewer):
		return Unreadable(err)
	case err != nil:
		return err
	}
	m.journal.Restored(before, m.catalog.View().Index())
	m.views.Publish(m.catalog.View())
	return nil
}

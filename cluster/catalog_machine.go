package cluster

import (
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
}

// noEffects is what catalog commands have as effects.
type noEffects struct{}

// Apply carries out a catalog command. One that this build cannot read changes nothing
// and is answered so. The view is shown when all commands of an entry are carried out: who
// waits for a view of its index must not see it without one of them (EX-15).
func (m *catalogMachine) Apply(meta raftfsm.Meta, header []byte, _ int) (catalog.Reply, noEffects) {
	if !meta.More {
		defer func() {
			m.views.publish(m.catalog.View())
			m.events.entryDone()
		}()
	}
	cmd, err := catalog.DecodeCommand(header)
	if err != nil {
		return catalog.Reply{
			Index: meta.Index,
			Err: &catalog.Error{
				Code: catalog.CodePreconditionFailed, Kind: "command",
				Reason: err.Error() + "; nodes of different versions must agree on catalog commands",
			},
		}, noEffects{}
	}
	before := m.catalog.View()
	r := m.catalog.Apply(meta.Index, meta.NowMs, cmd)
	m.events.applied(cmd, r, before, meta.NowMs)
	return r, noEffects{}
}

// Lead returns nil: the catalog has no effects.
func (m *catalogMachine) Lead(id.NodeID, uint64) []byte { return nil }

// Freeze returns the catalog of this moment: views never change.
func (m *catalogMachine) Freeze() raftfsm.Frozen { return frozenCatalog{m.catalog.View()} }

type frozenCatalog struct{ view *catalog.View }

// Live yields nothing: catalog commands have no bodies.
func (f frozenCatalog) Live() iter.Seq[raftfsm.BodyRun] { return func(func(raftfsm.BodyRun) bool) {} }

// AppendSnapshot appends the catalog.
func (f frozenCatalog) AppendSnapshot(b []byte) []byte { return f.view.AppendSnapshot(b) }

// Restore replaces the catalog and shows it.
func (m *catalogMachine) Restore(b []byte) error {
	before := m.catalog.View().Index()
	if err := m.catalog.Restore(b); err != nil {
		return err
	}
	m.events.restored(before, m.catalog.View().Index())
	m.views.publish(m.catalog.View())
	return nil
}

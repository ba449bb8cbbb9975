// Package machine is the machine of a queue's group: it carries out the commands of the group's log on a
// quorumq.Queue, and freezes and restores that. Decoders reads a command before it is proposed, so that no
// command gets into the log that members cannot read. It has no limits of its own.
package machine

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Machine runs a queue in a group. The group serialises all calls.
type Machine struct {
	queue    *quorumq.Queue
	decoders *Decoders
	// spoke is called when a command of a session was applied; it must not block.
	spoke func(id.NodeID)
}

// Decoders is shared by the machines of a node. A decoder is needed only during one command, so an
// idle queue has none.
type Decoders struct{ free sync.Pool }

// get returns a decoder that belongs to the caller until it is put back.
func (d *Decoders) get() *decoder {
	if free, ok := d.free.Get().(*decoder); ok {
		return free
	}
	return new(decoder)
}

// New returns an empty machine. It calls spoke with the nodes whose commands it applies.
func New(uid id.QueueUID, d *Decoders, spoke func(id.NodeID)) *Machine {
	return &Machine{
		decoders: d,
		// The settings in force come with Configure, so all members start with the same state
		//
		queue: quorumq.New(uid, quorumq.DefaultConfig()),
		spoke: spoke,
	}
}

// Queue returns the queue. It may be read only while the group applies nothing, and must not be kept: Restore replaces it.
func (m *Machine) Queue() *quorumq.Queue { return m.queue }

// Apply carries out a queue command; one that this build cannot read stops the group.
func (m *Machine) Apply(meta raftfsm.Meta, header []byte, bodies int) (quorumq.Reply, quorumq.Effects, error) {
	d := m.decoders.get()
	defer m.decoders.free.Put(d) // the queue keeps and returns nothing of the decoder
	c, err := d.command(header, bodies)
	if err != nil {
		return quorumq.Reply{}, quorumq.Effects{}, metadata.Unreadable(err)
	}
	at := quorumq.Meta{Index: meta.Index, FirstSlot: meta.FirstSlot, Now: quorumq.Time(meta.NowMs)}
	r, e := m.queue.Apply(at, c)
	switch c := c.(type) {
	case *quorumq.Checkout:
		m.spoke(c.Consumer.Node)
	case *quorumq.Get:
		m.spoke(c.Session.Node)
	}
	return lasting(r), e, nil
}

// decoder decodes commands whose bodies are stored separately.
type decoder struct{ quorumq.Decoder }

// command decodes a command, and refuses one whose number of bodies is wrong.
func (d *decoder) command(header []byte, bodies int) (quorumq.Command, error) {
	c, err := d.Decode(header)
	if err != nil {
		return nil, err
	}
	if want := bodiesOf(c); want != bodies {
		return nil, fmt.Errorf("cluster: %T has %d bodies, want %d", c, bodies, want)
	}
	return c, nil
}

// Readable reports whether members can carry out a command. The leader checks before it proposes,
// because in the log such a command would stop every member that cannot read it.
func (d *Decoders) Readable(c raftfsm.Command) bool {
	_, ok := d.Look(c)
	return ok
}

// Prelude is what a leader has to do before it proposes a command, or before it passes on the answer.
type Prelude struct {
	Purges bool // it must wait for dead letters that are in flight
	// Cancels: its answer must come behind the consumer's last delivery.
	Cancels bool
	// Annotates: the command's annotations must be merged with those that this message of the
	// consumer already has.
	Annotates bool
	Consumer  quorumq.ConsumerKey
	Message   quorumq.MsgID
	Source    id.QueueUID // of a Transfer, which must not be deleted; 0: it is none
}

// annotate records that annotations must be merged, if the decision is about a message that Get
// took.
func (p *Prelude) annotate(k quorumq.ConsumerKey, ranges []quorumq.MsgIDRange, annotated bool) {
	if annotated && k.Tag == 0 && len(ranges) == 1 && ranges[0].First == ranges[0].Last {
		p.Annotates, p.Consumer, p.Message = true, k, ranges[0].First
	}
}

// Look decodes a command as Readable does, and returns what the leader has to do before it proposes
// the command.
func (d *Decoders) Look(c raftfsm.Command) (before Prelude, ok bool) {
	decoder := d.get()
	defer d.free.Put(decoder)
	cmd, err := decoder.command(c.Header, len(c.Bodies))
	if err != nil {
		return before, false
	}
	switch cmd := cmd.(type) {
	case *quorumq.Purge:
		before.Purges = true
	case *quorumq.Cancel:
		before.Cancels = true
	case *quorumq.Transfer:
		before.Source = cmd.Source
	case *quorumq.Requeue:
		before.annotate(cmd.Consumer, cmd.Ranges, cmd.HasAnnotations)
	case *quorumq.Discard:
		before.annotate(cmd.Consumer, cmd.Ranges, cmd.HasAnnotations)
	}
	return before, true
}

// bodiesOf returns how many bodies belong to a command.
func bodiesOf(c quorumq.Command) int {
	annotations := func(has bool) int {
		if has {
			return 1
		}
		return 0
	}
	switch c := c.(type) {
	case *quorumq.Enqueue:
		return len(c.Messages)
	case *quorumq.Transfer:
		return len(c.DeadLetters)
	case *quorumq.Transact:
		return len(c.Outputs)
	case *quorumq.Requeue:
		return annotations(c.HasAnnotations)
	case *quorumq.Discard:
		return annotations(c.HasAnnotations)
	}
	return 0
}

// lasting copies those parts of a reply that the next Apply would change.
func lasting(r quorumq.Reply) quorumq.Reply {
	r.Refused = slices.Clone(r.Refused)
	if r.Delivery != nil {
		d := *r.Delivery
		r.Delivery = &d
	}
	return r
}

// Lead returns the command by which a leader takes over.
func (m *Machine) Lead(node id.NodeID, term uint64) []byte {
	return quorumq.AppendCommand(nil, &quorumq.Lead{Node: node, Term: term})
}

// Now returns the queue's time.
func (m *Machine) Now() int64 { return int64(m.queue.Now()) }

// Freeze returns the queue's present state.
func (m *Machine) Freeze() raftfsm.Frozen { return Frozen{m.queue.Freeze()} }

// Frozen writes a snapshot of the machine's state at one moment, while the machine goes on.
type Frozen struct{ *quorumq.Frozen }

// Live yields the bodies that the queue refers to.
func (f Frozen) Live() iter.Seq[raftfsm.BodyRun] {
	return func(yield func(raftfsm.BodyRun) bool) {
		for r := range f.Frozen.Live() {
			if !yield(raftfsm.BodyRun(r)) {
				return
			}
		}
	}
}

// HeldBytes returns the bytes of the messages that the queue holds.
func (m *Machine) HeldBytes() uint64 { return m.queue.HeldBytes() }

// Restore replaces the queue's state.
func (m *Machine) Restore(b []byte) error {
	q, err := quorumq.Restore(b)
	switch {
	case errors.Is(err, quorumq.ErrNewer):
		return metadata.Unreadable(err)
	case err != nil:
		return err
	}
	if q.UID() != m.queue.UID() {
		return fmt.Errorf("cluster: snapshot of queue %s in the group of queue %s", q.UID(), m.queue.UID())
	}
	m.queue = q
	return nil
}

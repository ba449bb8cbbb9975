package sim

import (
	"bytes"
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// machine is a queue as a member runs it: commands come in stored form. The planted
// faults of a queue's memory are in here, around the queue.
type machine struct {
	w   *world
	q   *quorumq.Queue
	dec quorumq.Decoder
}

// realSource is the part of a source's UID that spoil leaves alone.
const realSource id.QueueUID = 1<<20 - 1

// apply carries out an entry.
func (m *machine) apply(index uint64, e *entry) (quorumq.Command, quorumq.Reply, quorumq.Effects) {
	c, err := m.dec.Decode(e.header)
	if err != nil {
		m.w.broke("format", "a stored command cannot be decoded: %v", err)
		return nil, quorumq.Reply{}, quorumq.Effects{}
	}
	m.spoil(index, e.restores, c)
	r, eff := m.q.Apply(quorumq.Meta{Index: index, Now: e.now}, m.forget(e.restores, c))
	return c, r, eff
}

// spoil plants faults: names that are new each time are names that the queue does not
// remember.
func (m *machine) spoil(index, restores uint64, c quorumq.Command) {
	switch c := c.(type) {
	case *quorumq.Transfer:
		switch m.w.cfg.Fault {
		case FaultNoDedup:
			c.Source += id.QueueUID(index << 20)
		case FaultForgetfulSnapshot:
			c.Source += id.QueueUID(restores << 20)
		default:
		}
	case *quorumq.Enqueue:
		if m.w.cfg.Fault == FaultForgetfulProducers && restores > 0 {
			for i := range c.Messages {
				if p := c.Messages[i].Producer; p != nil {
					other := *p
					other[15] = byte(restores)
					c.Messages[i].Producer = &other
				}
			}
		}
	}
}

// forget plants FaultForgetfulDelays: what the queue gets is not what was asked for.
func (m *machine) forget(restores uint64, c quorumq.Command) quorumq.Command {
	switch fault := m.w.cfg.Fault; {
	case fault == FaultHalfTransact && restores > 0 || fault == FaultTwiceTransact || fault == FaultLostOutputs:
		return m.split(c)
	case fault == FaultLostMove || fault == FaultLostBacklog || fault == FaultForgetfulDeadlines && restores > 0:
		return m.lose(c)
	case fault != FaultForgetfulDelays || restores == 0:
		return c
	}
	switch c := c.(type) {
	case *quorumq.Requeue:
		d := *c
		d.Delay = quorumq.Delay{}
		return &d
	case *quorumq.Enqueue:
		d := *c
		d.Messages = slices.Clone(c.Messages)
		for i := range d.Messages {
			d.Messages[i].Delay = quorumq.Delay{}
		}
		return &d
	}
	return c
}

// lose plants faults in what operators, policies and patient consumers ask for.
func (m *machine) lose(c quorumq.Command) quorumq.Command {
	switch c := c.(type) {
	case *quorumq.Move:
		if m.w.cfg.Fault == FaultLostMove {
			return &quorumq.Move{Places: c.Places}
		}
	case *quorumq.Configure:
		if m.w.cfg.Fault == FaultLostBacklog {
			d := *c
			d.Config.OnSwitch = quorumq.SwitchDrop
			return &d
		}
	case *quorumq.Extend:
		if m.w.cfg.Fault == FaultForgetfulDeadlines {
			return &quorumq.Expire{}
		}
	}
	return c
}

// split plants faults in what must be one decision.
func (m *machine) split(c quorumq.Command) quorumq.Command {
	t, is := c.(*quorumq.Transact)
	if !is {
		return c
	}
	d := *t
	switch held := m.q.Assigned(nil, t.Consumer, t.Ranges[0].First-1); m.w.cfg.Fault {
	case FaultHalfTransact:
		d.Ranges = nil
	case FaultTwiceTransact:
		if len(held) == 0 || held[0].MsgID > t.Ranges[0].First {
			d.Ranges = nil
		}
	case FaultLostOutputs:
		return &quorumq.Settle{Consumer: t.Consumer, Ranges: t.Ranges}
	default:
	}
	return &d
}

// restore replaces the queue by what a snapshot says.
func (m *machine) restore(snapshot []byte) {
	q, err := quorumq.Restore(snapshot)
	if err != nil {
		m.w.broke("snapshot", "a snapshot cannot be restored: %v", err)
		return
	}
	if again := q.AppendSnapshot(nil); !bytes.Equal(again, snapshot) {
		m.w.broke("snapshot", "a restored queue has another snapshot: %d bytes, had %d", len(again), len(snapshot))
	}
	m.q = q
}

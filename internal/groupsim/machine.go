package groupsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// reply is where the log has a command.
type reply struct{ index uint64 }

// machine remembers its commands. The group serialises all calls.
type machine struct {
	now     int64
	headers []string
}

// leadPrefix begins the commands by which leaders take over.
const leadPrefix = "lead "

// Apply implements raftfsm.Machine.
func (m *machine) Apply(meta raftfsm.Meta, header []byte, _ int) (reply, struct{}, error) {
	m.headers, m.now = append(m.headers, string(header)), meta.NowMs
	return reply{meta.Index}, struct{}{}, nil
}

// Lead implements raftfsm.Machine.
func (m *machine) Lead(node id.NodeID, term uint64) []byte {
	return fmt.Appendf(nil, "%s%s %d", leadPrefix, node, term)
}

// Now implements raftfsm.Machine.
func (m *machine) Now() int64 { return m.now }

// HeldBytes implements raftfsm.Machine.
func (m *machine) HeldBytes() uint64 { return 0 }

// Freeze implements raftfsm.Machine.
func (m *machine) Freeze() raftfsm.Frozen { return frozen{m.now, slices.Clone(m.headers)} }

// Restore implements raftfsm.Machine.
func (m *machine) Restore(b []byte) error {
	if len(b) < 8 {
		return errors.New("groupsim: a state of less than 8 bytes")
	}
	m.now, m.headers = int64(binary.LittleEndian.Uint64(b)), nil
	for b = b[8:]; len(b) > 0; {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return fmt.Errorf("groupsim: a command of %d bytes where %d are left", n, len(b))
		}
		b = b[used:]
		m.headers, b = append(m.headers, string(b[:n])), b[n:]
	}
	return nil
}

// frozen is the state of a machine at one moment.
type frozen struct {
	now     int64
	headers []string
}

// Live implements raftfsm.Frozen: commands have no bodies.
func (f frozen) Live() iter.Seq[raftfsm.BodyRun] { return func(func(raftfsm.BodyRun) bool) {} }

// AppendSnapshot implements raftfsm.Frozen.
func (f frozen) AppendSnapshot(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(f.now))
	for _, h := range f.headers {
		b = binary.AppendUvarint(b, uint64(len(h)))
		b = append(b, h...)
	}
	return b
}

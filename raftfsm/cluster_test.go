package raftfsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

const testGroup id.GroupID = 1024

// testTimeout is as short as a busy machine with a slow disk allows without elections
// that no test asked for.
const testTimeout = 400 * time.Millisecond

// record is a command that the test machine has applied.
type record struct {
	Meta
	Header string
	Bodies int
}

// logMachine is a machine that remembers its commands. A header that begins with "drop "
// and a number makes it forget the commands before that one, the bodies too.
type logMachine struct {
	records []record
	first   int // records that were forgotten
	leads   bool
	panics  string        // header at which Apply panics
	foreign string        // header that it cannot read
	gate    chan struct{} // if set, states wait here until it is closed before they are written
	held    uint64        // HeldBytes
}

type reply struct {
	Seq    int // number of the command
	Header string
}

func (m *logMachine) Apply(meta Meta, header []byte, bodies int) (reply, string, error) {
	h := string(header)
	if m.foreign != "" && h == m.foreign {
		return reply{}, "", fmt.Errorf("%w: %s", ErrUnreadable, h)
	}
	if m.panics != "" && h == m.panics {
		panic("broken invariant")
	}
	meta.More = false // it is not part of the state
	m.records = append(m.records, record{meta, h, bodies})
	var keep int
	if n, _ := fmt.Sscanf(h, "keep %d", &keep); n == 1 {
		drop := max(0, len(m.records)-keep)
		m.first += drop
		m.records = slices.Clone(m.records[drop:])
	}
	return reply{m.first + len(m.records), h}, h, nil
}

func (m *logMachine) Now() int64 {
	if len(m.records) == 0 {
		return 0
	}
	return m.records[len(m.records)-1].NowMs
}

func (m *logMachine) Lead(node id.NodeID, term uint64) []byte {
	if !m.leads {
		return nil
	}
	return fmt.Appendf(nil, "lead %s %d", node, term)
}

func (m *logMachine) HeldBytes() uint64 { return m.held }

func (m *logMachine) Freeze() Frozen {
	return frozenLog{first: m.first, records: slices.Clone(m.records), gate: m.gate}
}

// frozenLog is a logMachine's state; with a gate it waits there before it is written.
type frozenLog struct {
	first   int
	records []record
	gate    chan struct{}
}

func (m frozenLog) Live() iter.Seq[BodyRun] {
	return func(yield func(BodyRun) bool) {
		for _, r := range m.records {
			if r.Bodies > 0 && !yield(BodyRun{Index: r.Index, Entries: 1, Slot: r.FirstSlot, Slots: uint32(r.Bodies)}) {
				return
			}
		}
	}
}

func (m frozenLog) AppendSnapshot(b []byte) []byte {
	if m.gate != nil {
		<-m.gate
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(m.first))
	for _, r := range m.records {
		b = binary.LittleEndian.AppendUint64(b, r.Index)
		b = binary.LittleEndian.AppendUint32(b, r.FirstSlot)
		b = binary.LittleEndian.AppendUint64(b, uint64(r.NowMs))
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Bodies))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Header)))
		b = append(b, r.Header...)
	}
	return b
}

func (m *logMachine) Restore(b []byte) error {
	m.first, m.records = int(binary.LittleEndian.Uint64(b)), nil
	for b = b[8:]; len(b) > 0; {
		n := int(binary.LittleEndian.Uint32(b[24:]))
		m.records = append(m.records, record{
			Meta{Index: binary.LittleEndian.Uint64(b), FirstSlot: binary.LittleEndian.Uint32(b[8:]), NowMs: int64(binary.LittleEndian.Uint64(b[12:]))},
			string(b[28 : 28+n]), int(binary.LittleEndian.Uint32(b[20:])),
		})
		b = b[28+n:]
	}
	return nil
}

// effects remembers what the group asks to act on.
type effects struct {
	mu      sync.Mutex
	leading bool
	term    uint64
	log     []string
}

func (e *effects) Act(_ uint64, h string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leading {
		e.log = append(e.log, "act without leading: "+h)
		return
	}
	e.log = append(e.log, h)
}

func (e *effects) Leading(on bool, term uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leading, e.term = on, term
	e.log = append(e.log, fmt.Sprintf("leading %v", on))
}

func (e *effects) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.log)
}

type testGroupT = Group[reply, string]

// member is one member of a test cluster.
type member struct {
	node      id.NodeID
	dir       string
	group     *testGroupT
	machine   *logMachine
	effects   *effects
	transport *heartbeats
	storage   Storage

	unconfigured bool // newCluster does not bootstrap it
}

// testCluster is three members in one process on real files.
type testCluster struct {
	t       testing.TB
	members []*member
	change  func(*member, *Config[reply, string]) // before a member is opened; may be nil
}

func newCluster(t testing.TB, n int, change func(*member, *Config[reply, string])) *testCluster {
	t.Helper()
	c := &testCluster{t: t, change: change}
	var nodes []id.NodeID
	for i := range n {
		m := &member{node: id.NodeID(fmt.Sprintf("n%d", i+1)), dir: t.TempDir()}
		c.members = append(c.members, m)
		nodes = append(nodes, m.node)
	}
	for _, m := range c.members {
		c.open(m)
	}
	for _, m := range c.members {
		if m.unconfigured {
			continue
		}
		if err := m.group.Bootstrap(nodes); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.logState()
		}
		for _, m := range c.members {
			if m.group != nil {
				_ = m.group.Close()
			}
		}
	})
	return c
}

func (c *testCluster) open(m *member) {
	c.t.Helper()
	if err := c.tryOpen(m); err != nil {
		c.t.Fatal(err)
	}
}

func (c *testCluster) tryOpen(m *member) error {
	m.transport = newHeartbeats(raft.ServerAddress(m.node))
	m.machine, m.effects = &logMachine{leads: true}, &effects{}
	config := Config[reply, string]{
		Group: testGroup, Node: m.node, Machine: m.machine, Effector: m.effects, Transport: m.transport,
		HeartbeatTimeout: testTimeout, ElectionTimeout: testTimeout,
		Logger: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	s, err := openLog(filepath.Join(m.dir, "log"))
	if err != nil {
		return err
	}
	config.Storage = s
	if c.change != nil {
		c.change(m, &config)
	}
	m.storage = config.Storage
	if config.Snapshots, err = OpenSnapshots(filepath.Join(m.dir, "snapshots"), config.Storage); err != nil {
		return errors.Join(err, s.Close())
	}
	if m.group, err = Open(config); err != nil {
		return errors.Join(err, s.Close())
	}
	c.connect(m)
	return nil
}

func (c *testCluster) connect(m *member) {
	for _, o := range c.members {
		if o != m && o.transport != nil && o.group != nil {
			m.transport.Connect(o.transport.LocalAddr(), o.transport.InmemTransport)
			o.transport.Connect(m.transport.LocalAddr(), m.transport.InmemTransport)
		}
	}
}

func (c *testCluster) disconnect(m *member) {
	m.transport.DisconnectAll()
	for _, o := range c.members {
		if o != m {
			o.transport.Disconnect(m.transport.LocalAddr())
		}
	}
}

func (c *testCluster) close(m *member) {
	c.t.Helper()
	c.disconnect(m)
	if err := m.group.Close(); err != nil {
		c.t.Fatal(err)
	}
	m.group = nil
}

// leader waits for a member that leads by its Lead command.
func (c *testCluster) leader() *member {
	c.t.Helper()
	var found *member
	until(c.t, "a leader", func() bool {
		for _, m := range c.members {
			if m.group != nil && m.group.Leading() {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

func (c *testCluster) follower() *member {
	l := c.leader()
	for _, m := range c.members {
		if m != l && m.group != nil {
			return m
		}
	}
	return nil
}

// propose proposes by whoever leads until the command is applied for certain.
func (c *testCluster) propose(header string, bodies ...string) reply {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), deadline)
	defer cancel()
	for {
		r, err := c.leader().group.Propose(ctx, command(header, bodies...))
		var not *NotLeaderError
		switch {
		case err == nil:
			return r
		case errors.Is(err, ErrUnknownOutcome): // a slow disk cost the leadership
			if c.applied(header) {
				return reply{Header: header}
			}
		case !errors.As(err, &not):
			c.t.Fatal(err)
		}
	}
}

// applied reports whether the command is in the log for good.
func (c *testCluster) applied(header string) bool {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), deadline)
	defer cancel()
	var is bool
	until(c.t, "a barrier", func() bool {
		l := c.leader()
		if l.group.Barrier(ctx) != nil {
			return false
		}
		is = slices.Contains(l.headers(), header)
		return true
	})
	return is
}

func command(header string, bodies ...string) Command {
	cmd := Command{Header: []byte(header)}
	for _, b := range bodies {
		cmd.Bodies = append(cmd.Bodies, []byte(b))
	}
	return cmd
}

// sum identifies a machine's state.
func (m *member) sum() uint32 {
	var sum uint32
	m.group.Read(func() { sum = crc32.ChecksumIEEE(m.machine.Freeze().AppendSnapshot(nil)) })
	return sum
}

// equal waits until all running members have the leader's state.
func (c *testCluster) equal() {
	c.t.Helper()
	until(c.t, "equal states", func() bool {
		var sums []uint32
		for _, m := range c.members {
			if m.group != nil && m.group.Failed() == nil {
				sums = append(sums, m.sum())
			}
		}
		return len(slices.Compact(sums)) == 1
	})
}

// headers returns the headers of the commands that the machine has, except for Lead.
func (m *member) headers() []string {
	var hs []string
	m.group.Read(func() {
		for _, r := range m.machine.records {
			if len(r.Header) < 5 || r.Header[:5] != "lead " {
				hs = append(hs, r.Header)
			}
		}
	})
	return hs
}

// refs returns the bodies that the machine refers to.
func (m *member) refs() []BodyRef {
	var refs []BodyRef
	m.group.Read(func() {
		for run := range m.machine.Freeze().Live() {
			for slot := range run.Slots {
				refs = append(refs, BodyRef{run.Index, run.Slot + slot})
			}
		}
	})
	return refs
}

// readable checks that every body the machine refers to can be read.
func (m *member) readable(t testing.TB) int {
	t.Helper()
	refs := m.refs()
	for _, ref := range refs {
		if _, err := m.group.Body(ref); err != nil {
			t.Fatalf("%s: body %+v: %v", m.node, ref, err)
		}
	}
	return len(refs)
}

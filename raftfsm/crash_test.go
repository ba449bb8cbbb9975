package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// crashRunsEnv is how many runs TestPowerLoss makes instead of its few.
const crashRunsEnv = "QUORATE_TEST_CRASH_RUNS"

const (
	crashGroups  = 2
	crashClients = 4 // of each group
	crashCycles  = 6 // power losses in a run
	// crashTimeout elects; the clock of these tests costs nothing.
	crashTimeout = 150 * time.Millisecond
	slowestSync  = 12 * time.Millisecond
	leaderTries  = 40 // of crashTimeout
)

// lateDir is a directory on a disk whose syncs take effect late.
type lateDir struct {
	vfs.Dir
	delay func() time.Duration
}

func (d lateDir) Create(name string) (vfs.File, error) {
	f, err := d.Dir.Create(name)
	return lateFile{f, d.delay}, err
}

func (d lateDir) Open(name string) (vfs.File, error) {
	f, err := d.Dir.Open(name)
	return lateFile{f, d.delay}, err
}

type lateFile struct {
	vfs.File
	delay func() time.Duration
}

func (f lateFile) Sync() error {
	time.Sleep(f.delay()) // this is the disk
	return f.File.Sync()
}

// dice are random numbers for many goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) upTo(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func (d *dice) time(most time.Duration) time.Duration {
	return time.Duration(d.upTo(int(most) + 1))
}

// crashNode is a node with a member of each group on one log.
type crashNode struct {
	name    id.NodeID
	disk    *vfs.Mem
	dir     string // of the snapshots
	log     *wal.Log
	members []*member // nil while the node is off
}

// crashRun is one run: a load on all groups, power losses, and what was acknowledged.
type crashRun struct {
	t     testing.TB
	dice  *dice
	open  openGate
	nodes []*crashNode
	stop  chan struct{}

	mu    sync.Mutex // guards what follows, and members of the nodes
	acked [crashGroups][]string
	sent  int
}

// memoryDir is a directory in memory where there is one: the syncs of snapshots are real,
// and the bubble's clock stands still during each.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "quorate-*") //nolint:usetesting // T.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (x *crashRun) start(n *crashNode) error {
	slow := x.dice.time(slowestSync) // some disks are slower than others, for a while
	delay := func() time.Duration { return x.dice.time(slow) }
	l, err := wal.Open(lateDir{n.disk, delay}, wal.Config{SegmentBytes: 1 << 16, SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
	if err != nil {
		return err
	}
	n.log = l
	var members []*member
	for i := range crashGroups {
		m, err := x.member(n, i)
		if err != nil {
			return err
		}
		members = append(members, m)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n.members = members
	for _, o := range x.nodes {
		for i := range o.members {
			if o != n {
				a, b := n.members[i].transport, o.members[i].transport
				a.Connect(b.LocalAddr(), b.InmemTransport)
				b.Connect(a.LocalAddr(), a.InmemTransport)
			}
		}
	}
	return nil
}

func (x *crashRun) member(n *crashNode, i int) (*member, error) {
	m := &member{node: n.name, machine: &logMachine{leads: true}, effects: &effects{}, transport: newHeartbeats(raft.ServerAddress(n.name))}
	g, err := n.log.Group(id.GroupID(i + 1))
	if err != nil {
		return nil, err
	}
	m.storage = g
	snaps, err := OpenSnapshots(filepath.Join(n.dir, strconv.Itoa(i)), m.storage)
	if err != nil {
		return nil, err
	}
	m.group, err = Open(Config[reply, string]{
		Group: g.Group(), Node: n.name, Machine: m.machine, Effector: m.effects, Transport: m.transport,
		Storage: m.storage, Snapshots: snaps, HeartbeatTimeout: crashTimeout, ElectionTimeout: crashTimeout,
		SnapshotEntries: 40, TrailingEntries: 20, Logger: slog.New(slog.DiscardHandler), open: x.open,
	})
	return m, err
}

// cut takes the power from nodes at once; what was not synced is gone.
func (x *crashRun) cut(nodes []*crashNode) {
	for _, n := range nodes {
		x.dice.mu.Lock()
		n.disk = n.disk.Crash(vfs.Loss(x.dice.r.IntN(int(vfs.Losses))), x.dice.r)
		x.dice.mu.Unlock()
	}
	for _, n := range nodes {
		x.mu.Lock()
		members := n.members
		n.members = nil
		x.mu.Unlock()
		for i, m := range members {
			m.transport.DisconnectAll()
			for _, o := range x.nodes {
				x.mu.Lock()
				if o.members != nil {
					o.members[i].transport.Disconnect(m.transport.LocalAddr())
				}
				x.mu.Unlock()
			}
		}
		for _, m := range members {
			_ = m.group.Close() // its disk is off
		}
		_ = n.log.Close()
	}
}

// leader returns the member that leads a group, or nil.
func (x *crashRun) leader(group int) *member {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.nodes {
		if n.members != nil && n.members[group].group.Leading() {
			return n.members[group]
		}
	}
	return nil
}

// client proposes until the run ends and records what was acknowledged.
func (x *crashRun) client(group, client int) {
	for i := 0; ; i++ {
		select {
		case <-x.stop:
			return
		case <-time.After(x.dice.time(4 * time.Millisecond)):
		}
		l := x.leader(group)
		if l == nil {
			continue
		}
		header := fmt.Sprintf("c%d-%d", client, i)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := l.group.Propose(ctx, command(header, "body of "+header))
		cancel()
		x.mu.Lock()
		x.sent++
		if err == nil {
			x.acked[group] = append(x.acked[group], header)
		}
		x.mu.Unlock()
	}
}

// run lets the power fail again and again under load, and returns what is wrong in the
// end.
func (x *crashRun) run() error {
	for i := range 3 {
		x.nodes = append(x.nodes, &crashNode{name: id.NodeID(fmt.Sprintf("n%d", i)), disk: vfs.NewMem(), dir: memoryDir(x.t)})
	}
	defer x.end()
	var names []id.NodeID
	for _, n := range x.nodes {
		names = append(names, n.name)
		if err := x.start(n); err != nil {
			return err
		}
	}
	for _, n := range x.nodes {
		for _, m := range n.members {
			if err := m.group.Bootstrap(names); err != nil {
				return err
			}
		}
	}
	var clients sync.WaitGroup
	for g := range crashGroups {
		for c := range crashClients {
			clients.Go(func() { x.client(g, c) })
		}
	}
	var err error
	for cycle := 0; cycle < crashCycles && err == nil; cycle++ {
		time.Sleep(150*time.Millisecond + x.dice.time(250*time.Millisecond))
		off := slices.Clone(x.nodes)
		x.dice.mu.Lock()
		x.dice.r.Shuffle(len(off), func(i, j int) { off[i], off[j] = off[j], off[i] })
		x.dice.mu.Unlock()
		off = off[:1+x.dice.upTo(3)]
		x.cut(off)
		for _, n := range off {
			time.Sleep(x.dice.time(150 * time.Millisecond))
			err = errors.Join(err, x.start(n))
		}
	}
	close(x.stop)
	clients.Wait()
	return errors.Join(err, x.check())
}

func (x *crashRun) end() {
	for _, n := range x.nodes {
		for _, m := range n.members {
			_ = m.group.Close() // whatever a planted fault has done to it
		}
		if n.log != nil {
			_ = n.log.Close()
		}
	}
}

// check compares the members with what was acknowledged, and with each other.
func (x *crashRun) check() error {
	for g := range crashGroups {
		l, err := x.caughtUpLeader(g)
		if err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
		have := map[string]bool{}
		for _, h := range l.headers() {
			have[h] = true
		}
		lost := slices.DeleteFunc(slices.Clone(x.acked[g]), func(h string) bool { return have[h] })
		if len(lost) > 0 {
			return fmt.Errorf("group %d: %d of %d acknowledged commands are lost, first is %s", g, len(lost), len(x.acked[g]), lost[0])
		}
		for _, n := range x.nodes {
			if err := x.follows(n.members[g], l); err != nil {
				return fmt.Errorf("group %d on %s: %w", g, n.name, err)
			}
		}
	}
	return nil
}

// caughtUpLeader returns a leader that has applied all that is committed.
func (x *crashRun) caughtUpLeader(g int) (*member, error) {
	why := errors.New("it has no leader")
	for range leaderTries {
		if l := x.leader(g); l != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			why = l.group.Barrier(ctx)
			cancel()
			if why == nil {
				return l, nil
			}
		}
		time.Sleep(crashTimeout)
	}
	for _, n := range x.nodes {
		why = errors.Join(why, n.members[g].group.Failed())
	}
	return nil, why
}

// follows waits until a member has the leader's state, and reads its bodies.
func (x *crashRun) follows(m, leader *member) error {
	for try := 0; m.sum() != leader.sum(); try++ {
		if try == leaderTries {
			return errors.Join(fmt.Errorf("differs from the leader %s", leader.node), m.group.Failed())
		}
		time.Sleep(crashTimeout)
	}
	return m.bodies()
}

// bodies reads every body that the machine refers to.
func (m *member) bodies() error {
	refs := m.refs()
	for _, ref := range refs {
		b, err := m.group.Body(ref)
		if err != nil {
			s := m.group.Stats()
			held := fmt.Sprintf("%s of term %d, snapshot of entry %d, applied %d, commit %d", s.State, s.Term, s.SnapshotIndex, s.AppliedIndex, s.CommitIndex)
			if l, ok := m.storage.(*wal.GroupLog); ok {
				held += "; " + l.Explain(ref.Index)
			}
			return fmt.Errorf("body %+v of %d: %w; %s", ref, len(refs), err, held)
		}
		if !strings.HasPrefix(string(b), "body of ") {
			return fmt.Errorf("body %+v is %q", ref, b)
		}
	}
	return nil
}

// powerLoss makes one run and returns what was wrong.
func powerLoss(t *testing.T, seed uint64, open openGate) (sent, acked int, wrong error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &crashRun{t: t, dice: &dice{r: rand.New(rand.NewPCG(seed, 1))}, open: open, stop: make(chan struct{})}
		wrong = x.run()
		sent = x.sent
		for _, a := range x.acked {
			acked += len(a)
		}
	})
	return sent, acked, wrong
}

// Disks sync late, the power of one to three nodes fails again and again and takes with it
// what was not synced: every acknowledged command is there, all members are equal, and
// every body can be read (RE-7).
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	runs := 6
	if testing.Short() {
		runs = 1
	}
	if s := os.Getenv(crashRunsEnv); s != "" {
		var err error
		if runs, err = strconv.Atoi(s); err != nil {
			t.Fatalf("%s: %v", crashRunsEnv, err)
		}
	} else {
		t.Logf("%d runs; %s sets another number", runs, crashRunsEnv)
	}
	var all, allAcked int
	for seed := range runs {
		sent, acked, wrong := powerLoss(t, uint64(seed), 0)
		if wrong != nil {
			t.Fatalf("seed %d, %d of %d acknowledged: %v", seed, acked, sent, wrong)
		}
		all, allAcked = all+sent, allAcked+acked
	}
	if allAcked < 100*runs {
		t.Errorf("only %d of %d commands were acknowledged", allAcked, all)
	}
	t.Logf("%d power losses, %d of %d commands acknowledged, none lost", runs*crashCycles, allAcked, all)
}

// Without any one of the gates the same runs find a loss.
func TestPowerLossFindsOpenGates(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]openGate{
		"follower": openFollower, "leader": openLeader, "snapshot": openSnapshot,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && open == openSnapshot {
				t.Skip("short: a dozen runs until one finds it")
			}
			const most = 100
			for seed := range uint64(most) {
				if _, _, wrong := powerLoss(t, seed, open); wrong != nil {
					t.Logf("run %d: %v", seed+1, wrong)
					return
				}
			}
			t.Errorf("%d runs found nothing", most)
		})
	}
}

package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// timedMachine is a queue that records how long Freeze took: nothing is applied during that time.
type timedMachine struct {
	*Machine
	frozen atomic.Int64 // nanoseconds of the last Freeze
}

func (m *timedMachine) Freeze() raftfsm.Frozen {
	begin := time.Now()
	defer func() { m.frozen.Store(int64(time.Since(begin))) }()
	return m.Machine.Freeze()
}

type noEffector struct{}

func (noEffector) Act(uint64, quorumq.Effects) {}
func (noEffector) Leading(bool, uint64)        {}

// benchQueue is a queue's group of one member on its own log.
type benchQueue struct {
	dir     string
	log     *wal.Log
	machine *timedMachine
	group   *raftfsm.Group[quorumq.Reply, quorumq.Effects]
	enqueue quorumq.Enqueue
}

func openBenchQueue(b *testing.B, change func(*raftfsm.Config[quorumq.Reply, quorumq.Effects])) *benchQueue {
	b.Helper()
	const uid = id.FirstQueueUID
	q := &benchQueue{dir: b.TempDir(), machine: &timedMachine{Machine: New(uid, &Decoders{}, func(id.NodeID) {})}}
	q.enqueue = quorumq.Enqueue{Enqueuer: quorumq.EnqueuerKey{Node: "n1", Epoch: 1}, First: 1}
	dir, err := vfs.OS(filepath.Join(q.dir, "wal"))
	if err == nil {
		q.log, err = wal.Open(dir, wal.Config{})
	}
	if err != nil {
		b.Fatal(err)
	}
	storage, err := q.log.Group(uid.Group())
	if err != nil {
		b.Fatal(err)
	}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(q.dir, "snapshots"), storage)
	if err != nil {
		b.Fatal(err)
	}
	_, transport := raft.NewInmemTransport("n1")
	c := raftfsm.Config[quorumq.Reply, quorumq.Effects]{
		Group: uid.Group(), Node: "n1", Machine: q.machine, Effector: noEffector{}, Storage: storage, Snapshots: snapshots,
		Transport: transport, HeartbeatTimeout: 200 * time.Millisecond, ElectionTimeout: 200 * time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	if q.group, err = raftfsm.Open(c); err != nil {
		b.Fatal(err)
	}
	if err := q.group.Bootstrap([]id.NodeID{"n1"}); err != nil {
		b.Fatal(err)
	}
	for !q.group.Leading() {
		time.Sleep(time.Millisecond)
	}
	b.Cleanup(func() {
		if err := errors.Join(q.group.Close(), q.log.Close()); err != nil {
			b.Error(err)
		}
	})
	return q
}

// run proposes a command and waits for the answer.
func (q *benchQueue) run(b *testing.B, c quorumq.Command, bodies ...[]byte) {
	b.Helper()
	done := make(chan error, 1)
	q.group.Submit(raftfsm.Command{Header: quorumq.AppendCommand(nil, c), Bodies: bodies}, func(_ quorumq.Reply, err error) { done <- err })
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSnapshotOfDeepQueue takes snapshots of a queue of ten million messages, through Raft, to
// a file that is synced, while commands continue. It reports whole_ms, blocked_ms (nothing is
// applied) and gap_ms (the longest that a command took meanwhile, its own sync included). Each is
// the best of the runs, because the machine has other work too. The messages are put into the
// machine without the log. BenchmarkRetain of package wal measures how long it takes to release
// entries.
func BenchmarkSnapshotOfDeepQueue(b *testing.B) {
	const messages = 10_000_000
	for _, batch := range []int{256, 1} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			q := openBenchQueue(b, nil)
			q.group.Read(func() { fillQueue(q, messages, batch) })
			whole, blocked, gap := time.Hour, time.Hour, time.Hour
			for range b.N {
				q.run(b, &quorumq.Expire{})
				begin := time.Now()
				done := make(chan error, 1)
				go func() { done <- q.group.Snapshot() }()
				longest, err := q.commandsUntil(b, done)
				if err != nil {
					b.Fatal(err)
				}
				whole = min(whole, time.Since(begin))
				blocked, gap = min(blocked, time.Duration(q.machine.frozen.Load())), min(gap, longest)
			}
			size := int64(0)
			files, err := filepath.Glob(filepath.Join(q.dir, "snapshots", "*.snapshot"))
			for _, f := range files {
				if stat, err := os.Stat(f); err == nil {
					size += stat.Size()
				}
			}
			if err != nil || size == 0 {
				b.Fatalf("files %v, %v", files, err)
			}
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(whole), "whole_ms")
			b.ReportMetric(ms(blocked), "blocked_ms")
			b.ReportMetric(ms(gap), "gap_ms")
			b.ReportMetric(float64(size)/1e6, "snapshot_mb")
		})
	}
}

// fillQueue puts messages into the machine without Raft, by commands of batch messages each.
func fillQueue(q *benchQueue, messages, batch int) {
	q.enqueue.Messages = nil
	for range batch {
		q.enqueue.Messages = append(q.enqueue.Messages, quorumq.NewMessage{Size: 100, TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority})
	}
	now := time.Now().UnixMilli() - int64(messages)/100
	for i := 0; i < messages; i += batch {
		at := quorumq.Meta{Index: uint64(i/batch + 10), Now: quorumq.Time(now + int64(i)/100)}
		q.machine.queue.Apply(at, &q.enqueue)
		q.enqueue.First += quorumq.Seq(batch)
	}
}

// commandsUntil proposes one command after another until done has a value, and returns how long the
// slowest took.
func (q *benchQueue) commandsUntil(b *testing.B, done <-chan error) (longest time.Duration, err error) {
	for {
		begin := time.Now()
		q.run(b, &quorumq.Expire{})
		longest = max(longest, time.Since(begin))
		select {
		case err := <-done:
			return longest, err
		default:
		}
	}
}

// diskMessages is how many messages BenchmarkDiskUseOfQueue publishes; diskMessagesEnv
// sets another number.
const (
	diskMessages    = 1_000_000
	diskMessagesEnv = "QUORATE_BENCH_MESSAGES"
)

// BenchmarkDiskUseOfQueue publishes messages in entries of 64 × 100 B through Raft, and takes and
// settles all but a thousand of them, which are spread evenly. Then it measures what the log and
// the snapshots take at the end: over-segments is by how many segments that exceeds three times the
// live bytes.
func BenchmarkDiskUseOfQueue(b *testing.B) {
	messages := diskMessages
	if s := os.Getenv(diskMessagesEnv); s != "" {
		if _, err := fmt.Sscan(s, &messages); err != nil {
			b.Fatalf("%s=%q: %v", diskMessagesEnv, s, err)
		}
	}
	for b.Loop() {
		q := openBenchQueue(b, nil)
		q.churn(b, messages, 1000)
		if err := q.group.Snapshot(); err != nil {
			b.Fatal(err)
		}
		// The housekeeper works concurrently with the appends.
		end := time.Now().Add(30 * time.Second)
		s := q.log.Stats()
		for time.Now().Before(end) && s.DiskBytes > 3*s.LiveBytes+2*wal.DefaultSegmentBytes {
			time.Sleep(10 * time.Millisecond)
			s = q.log.Stats()
		}
		var ready uint64
		q.group.Read(func() { ready = q.machine.queue.Overview().Ready + q.machine.queue.Overview().Unsettled })
		if ready != 1000 {
			b.Fatalf("%d messages are left", ready)
		}
		b.ReportMetric(float64(s.DiskBytes)/1e6, "disk-MB")
		b.ReportMetric(float64(s.LiveBytes)/1e6, "live-MB")
		b.ReportMetric(float64(s.DiskBytes-3*s.LiveBytes)/wal.DefaultSegmentBytes, "over-segments")
	}
}

// churn publishes messages, then takes and settles all but stay of them.
func (q *benchQueue) churn(b *testing.B, messages, stay int) {
	b.Helper()
	const batch = 64
	k := quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: "n1", Epoch: 1, Session: 1}, Tag: 1}
	q.run(b, &quorumq.Checkout{Consumer: k})
	q.enqueue.Messages = nil
	var bodies [][]byte
	for range batch {
		q.enqueue.Messages = append(q.enqueue.Messages, quorumq.NewMessage{Size: 100, TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority})
		bodies = append(bodies, bytes.Repeat([]byte("b"), 100))
	}
	every := messages / stay
	for i := 0; i < messages; i += batch {
		q.enqueue.Messages = q.enqueue.Messages[:min(batch, messages-i)]
		n := len(q.enqueue.Messages)
		q.run(b, &q.enqueue, bodies[:n]...)
		q.enqueue.First += quorumq.Seq(n)
		settle := quorumq.Settle{Consumer: k}
		for first := i; first < i+n; {
			stays := (first + every - 1) / every * every // messages of these numbers stay
			if last := min(stays, i+n); last > first {
				settle.Ranges = append(settle.Ranges, quorumq.MsgIDRange{First: quorumq.MsgID(first + 1), Last: quorumq.MsgID(last)})
			}
			first = stays + 1
		}
		if len(settle.Ranges) > 0 {
			q.run(b, &settle)
		}
	}
}

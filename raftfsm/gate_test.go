package raftfsm

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// tap is a disk whose syncs wait while it is shut.
type tap struct {
	mu   sync.Mutex
	shut chan struct{} // nil while it is open
}

func (p *tap) delay() time.Duration {
	p.mu.Lock()
	shut := p.shut
	p.mu.Unlock()
	if shut != nil {
		<-shut
	}
	return 0
}

func (p *tap) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = make(chan struct{})
}

func (p *tap) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.shut)
	p.shut = nil
}

// logMember is a member on a shared log in memory.
type logMember struct {
	*member
	disk *vfs.Mem
	tap  *tap
	log  *wal.Log
}

// newLogCluster starts members on shared logs; it belongs into a synctest bubble.
func newLogCluster(t *testing.T, n int, change func(*Config[reply, string])) []*logMember {
	t.Helper()
	var all []*logMember
	var names []id.NodeID
	for i := range n {
		name := id.NodeID(fmt.Sprintf("n%d", i+1))
		m := &logMember{
			member: &member{node: name, machine: &logMachine{leads: true}, effects: &effects{}, transport: newHeartbeats(raft.ServerAddress(name))},
			disk:   vfs.NewMem(), tap: &tap{},
		}
		var err error
		m.log, err = wal.Open(lateDir{m.disk, m.tap.delay}, wal.Config{SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		if m.storage, err = m.log.Group(testGroup); err != nil {
			t.Fatal(err)
		}
		snaps, err := OpenSnapshots(filepath.Join(t.TempDir(), "snapshots"), m.storage)
		if err != nil {
			t.Fatal(err)
		}
		c := Config[reply, string]{
			Group: testGroup, Node: name, Machine: m.machine, Effector: m.effects, Transport: m.transport, Storage: m.storage,
			Snapshots: snaps, HeartbeatTimeout: crashTimeout, ElectionTimeout: crashTimeout, Logger: slog.New(slog.DiscardHandler),
		}
		if change != nil {
			change(&c)
		}
		if m.group, err = Open(c); err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			m.transport.Connect(o.transport.LocalAddr(), o.transport.InmemTransport)
			o.transport.Connect(m.transport.LocalAddr(), m.transport.InmemTransport)
		}
		all, names = append(all, m), append(names, name)
	}
	for _, m := range all {
		if err := m.group.Bootstrap(names); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, m := range all {
			_ = m.group.Close()
			_ = m.log.Close()
		}
	})
	return all
}

func leaderOf(t *testing.T, all []*logMember, but *logMember) *logMember {
	t.Helper()
	var found *logMember
	until(t, "a leader", func() bool {
		for _, m := range all {
			if m != but && m.group.Leading() {
				found = m
			}
		}
		return found != nil
	})
	return found
}

func others(all []*logMember, but *logMember) []*logMember {
	var os []*logMember
	for _, m := range all {
		if m != but {
			os = append(os, m)
		}
	}
	return os
}

// submit proposes a command; its outcome is sent once.
func (m *logMember) submit(header string) chan error {
	done := make(chan error, 1)
	m.group.Submit(command(header, "body"), func(_ reply, err error) { done <- err })
	return done
}

// waits checks that nothing comes for a while on the bubble's clock.
func waits(t *testing.T, what string, done chan error) {
	t.Helper()
	time.Sleep(crashTimeout / 3) // less than makes anybody elect
	select {
	case err := <-done:
		t.Errorf("%s: answered with %v although the disk hangs", what, err)
		done <- err
	default:
	}
}

func comes(t *testing.T, what string, done <-chan error) {
	t.Helper()
	if err := <-done; err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// An entry is committed with the leader's disk and one follower's, and not without either.
func TestCommitNeedsTheDisks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newLogCluster(t, 3, nil)
		l := leaderOf(t, all, nil)
		comes(t, "all disks work", l.submit("a"))
		l.tap.close()
		done := l.submit("b")
		waits(t, "the leader's", done)
		l.tap.release()
		comes(t, "the leader's is back", done)
		fs := others(all, l)
		fs[0].tap.close()
		comes(t, "one follower's hangs", l.submit("c"))
		fs[1].tap.close()
		done = l.submit("d")
		waits(t, "both followers'", done)
		fs[1].tap.release()
		comes(t, "one follower's is back", done)
		fs[0].tap.release()
		if !l.group.Leading() {
			t.Error("the leader was replaced")
		}
	})
}

// Where no peer is asked, the disk is: for a member that is alone from the beginning, and
// for one that is left alone, from the moment on when that is decided.
func TestLoneVoterWaitsForItsDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLogCluster(t, 1, nil)[0]
		comes(t, "alone", leaderOf(t, []*logMember{l}, nil).submit("a"))
		l.tap.close()
		done := l.submit("b")
		waits(t, "alone", done)
		l.tap.release()
		comes(t, "alone", done)
	})
	synctest.Test(t, func(t *testing.T) {
		all := newLogCluster(t, 3, nil)
		l := leaderOf(t, all, nil)
		fs := others(all, l)
		comes(t, "three", l.submit("a"))
		committed := func() uint64 {
			synctest.Wait()
			at, err := l.group.Configuration()
			if err != nil || !at.Committed() {
				t.Fatalf("%+v, %v", at, err)
			}
			return at.Index
		}
		if err := l.group.RemoveServer(t.Context(), fs[0].node, committed()); err != nil {
			t.Fatal(err)
		}
		l.tap.close()
		before := l.submit("b")
		waits(t, "before it is alone", before)
		removed := make(chan error, 1)
		at := committed()
		go func() { removed <- l.group.RemoveServer(t.Context(), fs[1].node, at) }()
		waits(t, "removal", removed)
		waits(t, "before it is alone", before)
		l.tap.release()
		comes(t, "removal", removed)
		comes(t, "before it is alone", before)
		l.tap.close()
		after := l.submit("c")
		waits(t, "left alone", after)
		l.tap.release()
		comes(t, "left alone", after)
	})
}

// A leader whose disk hangs falls silent although its raft waits for nothing; another
// one leads, and the old one follows when its disk is back.
func TestHangingSyncLosesTheLeadership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newLogCluster(t, 3, func(c *Config[reply, string]) { c.StallTimeout = time.Second })
		old := leaderOf(t, all, nil)
		comes(t, "all disks work", old.submit("a"))
		changed := old.group.Changed()
		old.tap.close()
		stuck := old.submit("stuck")
		next := leaderOf(t, all, old)
		comes(t, "the next leader", next.submit("b"))
		if !old.group.Stalled() {
			t.Error("the old leader does not say that its disk hangs")
		}
		<-changed
		old.tap.release()
		if err := <-stuck; !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("command in the hung write: %v", err)
		}
		until(t, "the old leader to follow", func() bool {
			return old.sum() == next.sum() && !old.group.Stalled() && old.group.Failed() == nil
		})
	})
}

// When the log of a member fails, its group stops there at once, and nobody waits for what
// will never be durable.
func TestFailedSyncStopsTheMember(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			all := newLogCluster(t, 3, nil)
			l := leaderOf(t, all, nil)
			comes(t, "all disks work", l.submit("a"))
			m := l
			if !leads {
				m = others(all, l)[0]
			}
			m.disk.FailAt(vfs.OpSync, 1, errDisk)
			err := <-l.submit("b")
			if leads && !errors.Is(err, ErrUnknownOutcome) && !errors.Is(err, ErrStopped) || !leads && err != nil {
				t.Errorf("leads %t: command in the failed write: %v", leads, err)
			}
			until(t, "the member to stop", func() bool { return errors.Is(m.group.Failed(), errDisk) })
			comes(t, "the others", leaderOf(t, all, m).submit("c"))
		})
	}
}

package cluster

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// ledQueues are the queues that a node leads.
type ledQueues map[id.QueueUID]*quorumq.Overview

func (l ledQueues) all() iter.Seq2[id.QueueUID, *quorumq.Overview] { return maps.All(l) }

// figuresAsker is a node that asks another one.
type figuresAsker struct {
	has  *nodeFigures
	sent int // figures that came with the last answer
}

// ask asks as AllFigures does.
func (a *figuresAsker) ask(t *testing.T, sent *sentFigures, run uint64, led ledQueues) {
	t.Helper()
	before, since := a.has, uint64(0)
	if before == nil {
		before = &nodeFigures{}
	}
	if before.run == run {
		since = before.asOf
	}
	all, err := sent.respond(run, since, led.all())
	if err != nil {
		t.Fatal(err)
	}
	now := &nodeFigures{queues: map[id.QueueUID]*QueueFigures{}}
	a.sent = 0
	for _, r := range all {
		a.sent += len(r.GetQueues())
		if err := now.add("n", before, r); err != nil {
			t.Fatal(err)
		}
	}
	a.has = now
}

// check compares what the asker has with what there is.
func (a *figuresAsker) check(led ledQueues) error {
	if len(a.has.queues) != len(led) {
		return fmt.Errorf("%d queues, there are %d", len(a.has.queues), len(led))
	}
	for uid, o := range led {
		if f := a.has.queues[uid]; f == nil || f.Overview != *o || f.Leader != "n" {
			return fmt.Errorf("queue %d: %+v, is %+v", uid, f, o)
		}
	}
	return nil
}

// Whoever asks has all figures as they are after each answer, however seldom it asks, and whatever changes, comes, goes and
// comes back between: also a node that restarts.
func TestSentFigures(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	sent, run, led := &sentFigures{}, uint64(1), ledQueues{}
	askers := make([]figuresAsker, 3)
	for round := range 2000 {
		for range r.IntN(4) {
			switch uid := id.QueueUID(1 + r.IntN(20)); r.IntN(10) {
			case 0:
				delete(led, uid)
			case 1:
				led[uid] = &quorumq.Overview{} // one that is as it was
			default:
				o := quorumq.Overview{}
				if before := led[uid]; before != nil {
					o = *before
				}
				o.Ready, o.ReadyByPriority[r.IntN(32)], o.Config.MaxLength = r.Uint64N(3), r.Uint64N(2), r.Int64N(2)
				led[uid] = &o
			}
		}
		if r.IntN(200) == 0 {
			sent, run = &sentFigures{}, run+1
		}
		i := r.IntN(len(askers))
		askers[i].ask(t, sent, run, led)
		if err := askers[i].check(led); err != nil {
			t.Fatalf("round %d of seed %d: %v", round, seed, err)
		}
		if len(sent.of) != len(led) {
			t.Fatalf("round %d of seed %d: %d queues are noted, of %d", round, seed, len(sent.of), len(led))
		}
	}
}

// What has not changed is not sent again, in however many responses; what another asker was sent meanwhile still is.
func TestSentFiguresOnce(t *testing.T) {
	const queues = unchangedBatch + 2*ledBatch
	sent, led, a, b := &sentFigures{}, ledQueues{}, figuresAsker{}, figuresAsker{}
	for uid := range id.QueueUID(queues) {
		led[uid+1] = &quorumq.Overview{Ready: uint64(uid)}
	}
	for i, want := range []struct {
		asker *figuresAsker
		sent  int
	}{{&a, queues}, {&a, 0}, {&b, queues}, {&a, 1}, {&b, 1}, {&b, 0}} {
		if i == 3 {
			led[7] = &quorumq.Overview{Ready: 1, Enqueued: 1}
		}
		want.asker.ask(t, sent, 1, led)
		if err := want.asker.check(led); err != nil || want.asker.sent != want.sent {
			t.Fatalf("question %d: %d figures were sent, want %d; %v", i, want.asker.sent, want.sent, err)
		}
	}
}

// A queue that two nodes show counts once, with the newer figures. Of equal ones, those of the same node are taken each time.
func TestFiguresOfTwoNodes(t *testing.T) {
	shows := func(n id.NodeID, uid id.QueueUID, now quorumq.Time) *nodeFigures {
		return &nodeFigures{queues: map[id.QueueUID]*QueueFigures{uid: {Leader: n, Overview: quorumq.Overview{Now: now}}}}
	}
	for _, x := range []struct {
		b, c quorumq.Time
		want id.NodeID
	}{{5, 5, "b"}, {5, 6, "c"}, {6, 5, "b"}} {
		for range 50 {
			f := AllFigures{of: map[id.NodeID]*nodeFigures{"c": shows("c", 7, x.c), "b": shows("b", 7, x.b), "a": shows("a", 8, 9)}}
			f.merge(0)
			if len(f.Queues) != 2 || f.Queues[7].Leader != x.want {
				t.Fatalf("%d at b, %d at c: %+v", x.b, x.c, f.Queues[7])
			}
		}
	}
}

// BenchmarkSentFigures is what a question costs the node that is asked about 3,334 queues, a third of 10,000: all of them for
// one who has none, and for one who has asked before if none has changed.
func BenchmarkSentFigures(b *testing.B) {
	led := ledQueues{}
	for uid := range id.QueueUID(3334) {
		led[uid+1] = &quorumq.Overview{Ready: uint64(uid), Enqueued: uint64(uid), Config: quorumq.DefaultConfig()}
	}
	for _, asked := range []bool{false, true} {
		b.Run(fmt.Sprintf("asked=%t", asked), func(b *testing.B) {
			b.ReportAllocs()
			sent, since := &sentFigures{}, uint64(0)
			for b.Loop() {
				all, err := sent.respond(1, since, led.all())
				if err != nil {
					b.Fatal(err)
				}
				if asked {
					since = all[0].GetAsOf()
				}
			}
		})
	}
}

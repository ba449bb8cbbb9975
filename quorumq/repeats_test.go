package quorumq

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestTransfersAgainstASet adds and settles dead letters at random. A source knows each number that
// is stored or settled and no other, in ranges that do not touch, in its stored form too (DL-25).
func TestTransfersAgainstASet(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	all := make(transfers)
	stored := make(map[Seq]bool)
	settled := Seq(0)
	for step := range 3000 {
		s := all.of(9)
		if seq := Seq(1 + random.IntN(400)); !s.has(seq) {
			s.add(seq)
			stored[seq] = true
		}
		if random.IntN(50) == 0 {
			settled = max(settled, Seq(random.IntN(400)))
			s.settle(settled)
		}
		if err := all.check(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		for seq := range Seq(402) {
			if want := seq <= settled || stored[seq]; s.has(seq) != want {
				t.Fatalf("step %d: number %d is known %t, settled are %d", step, seq, !want, settled)
			}
		}
		if step%100 == 0 {
			b := all.put(nil)
			all = make(transfers)
			r := &reader{b: b}
			if all.restore(r); r.end() != nil {
				t.Fatalf("step %d: %v", step, r.end())
			}
		}
	}
}

// TestSourceIsForgotten shows that a source without a stored or settled number leaves no trace.
func TestSourceIsForgotten(t *testing.T) {
	all := make(transfers)
	all.of(1)
	if all.leave(1); len(all) != 0 {
		t.Error("a source with nothing to remember is kept")
	}
	all.of(1).settle(1)
	if all.leave(1); len(all) != 1 {
		t.Error("a watermark is forgotten")
	}
}

// TestEnqueuerForgetsAnswered shows that a refusal is remembered until its answer has arrived.
func TestEnqueuerForgetsAnswered(t *testing.T) {
	e := enqueuer{next: 20, refused: []Seq{3, 7, 12}}
	for _, step := range []struct {
		answered Seq
		left     int
	}{{2, 3}, {3, 2}, {8, 1}, {11, 1}, {12, 0}} {
		e.trim(step.answered)
		if len(e.refused) != step.left {
			t.Errorf("answered up to %d, %v are left", step.answered, e.refused)
		}
		if !e.check() {
			t.Error("out of order")
		}
		if e.refuses(step.answered) {
			t.Errorf("%d is still refused", step.answered)
		}
	}
	if e = (enqueuer{next: 5, refused: []Seq{5}}); e.check() {
		t.Error("a number that was not decided may not be refused")
	}
}

// TestProducersAreBounded shows what is forgotten: above MaxProducers the producer that has been
// silent longest, each producer that was silent for too long, and the oldest refusal if there are
// too many.
func TestProducersAreBounded(t *testing.T) {
	ps := producers{byID: make(map[ProducerID]*producer)}
	decide := func(i, seq uint64, stored bool, now Time) {
		var id ProducerID
		binary.BigEndian.PutUint64(id[:], i)
		ps.decided(&NewMessage{Producer: &id, ProducerSeq: seq}, stored, now)
	}
	known := func(i, seq uint64) (known, refused bool) {
		var id ProducerID
		binary.BigEndian.PutUint64(id[:], i)
		return ps.repeated(&NewMessage{Producer: &id, ProducerSeq: seq})
	}
	for i := range uint64(MaxProducers) {
		decide(i, 1, true, 1)
	}
	decide(0, 2, false, 2)           // not the most silent one any more
	decide(MaxProducers, 1, true, 3) // one too many
	if ok, _ := known(1, 1); ok || len(ps.byID) != MaxProducers {
		t.Errorf("%d producers are known, the most silent one %t", len(ps.byID), ok)
	}
	if ok, refused := known(0, 2); !ok || !refused {
		t.Errorf("known %t, refused %t", ok, refused)
	}
	if ok, refused := known(0, 1); !ok || refused {
		t.Errorf("known %t, refused %t", ok, refused)
	}
	if ok, _ := known(0, 3); ok {
		t.Error("a number is known before it came")
	}
	if err := ps.check(3); err != nil {
		t.Error(err)
	}
	late := Time(2 + ProducerRetentionMs)
	decide(5, 2, true, late)
	if err := ps.check(late); err != nil {
		t.Error(err)
	}
	if len(ps.byID) != 2 { // MaxProducers spoke at 3
		t.Errorf("%d producers are known after the retention", len(ps.byID))
	}
	for seq := range uint64(MaxProducerRefusals + 1) {
		decide(5, 3+seq, false, late)
	}
	if ok, refused := known(5, 3); !ok || refused {
		t.Errorf("the oldest refusal: known %t, refused %t", ok, refused)
	}
	if err := ps.check(late); err != nil {
		t.Error(err)
	}
}

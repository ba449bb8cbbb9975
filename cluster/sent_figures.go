package cluster

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"
	"sync"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

const (
	// ledBatch is how many queues with figures are in one response of LedFigures.
	ledBatch = 256
	// unchangedBatch is the same for queues without figures.
	unchangedBatch = 16_384
)

// sentFigures records when the figures of each queue that this node leads were last found to be new. So a peer is
// sent only those that have changed since it last asked: of thousands of queues most are idle. The zero value is
// ready to use.
type sentFigures struct {
	mu    sync.Mutex // held while all figures are read, so that a round has all that was new before it
	seed  maphash.Seed
	round uint64
	of    map[id.QueueUID]sent
}

// sent is what is noted of a queue.
type sent struct {
	sum  uint64 // of its figures: a change that leaves it as it is, one in 2^64, would show with the next one
	new  uint64 // the round in which they were new
	last uint64 // the newest round in which this node led it
}

// respond makes the responses to a peer that has the figures of an earlier round, or none for 0. run stands for the life of
// this process.
func (t *sentFigures) respond(run, since uint64, all iter.Seq2[id.QueueUID, *quorumq.Overview]) ([]*nodev1.LedFiguresResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of, t.seed = map[id.QueueUID]sent{}, maphash.MakeSeed()
	}
	t.round++
	next := func() *nodev1.LedFiguresResponse { return &nodev1.LedFiguresResponse{Run: run, AsOf: t.round} }
	out, led := []*nodev1.LedFiguresResponse{next()}, 0
	for uid, o := range all {
		led++
		r := out[len(out)-1]
		if len(r.GetQueues()) == ledBatch || len(r.GetUnchanged()) == unchangedBatch {
			r = next()
			out = append(out, r)
		}
		if t.note(uid, o) <= since {
			r.Unchanged = append(r.Unchanged, uint64(uid))
			continue
		}
		text, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("figures of queue %s: %w", uid, err)
		}
		r.Queues = append(r.Queues, &nodev1.LedQueue{Queue: uint64(uid), Overview: text})
	}
	if len(t.of) > led {
		t.forget()
	}
	return out, nil
}

// note returns the round in which the figures of a queue were new. mu is held.
func (t *sentFigures) note(uid id.QueueUID, o *quorumq.Overview) uint64 {
	x, sum := t.of[uid], maphash.Comparable(t.seed, *o)
	if x.new == 0 || x.sum != sum {
		x.sum, x.new = sum, t.round
	}
	x.last = t.round
	t.of[uid] = x
	return x.new
}

// forget drops the queues that this node did not lead in the present round. mu is held.
func (t *sentFigures) forget() {
	for uid, x := range t.of {
		if x.last != t.round {
			delete(t.of, uid)
		}
	}
}

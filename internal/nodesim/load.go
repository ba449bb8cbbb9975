package nodesim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/quorumq"
)

// How often a client publishes, and how often the nodes' answers are checked.
const (
	publishEvery = 4 * time.Millisecond
	lookEvery    = 3 * time.Millisecond
)

// every calls f until the run ends.
func (r *run) every(d time.Duration, f func()) {
	r.loads.Go(func() {
		t := time.NewTicker(d)
		defer t.Stop()
		for {
			select {
			case <-r.ending:
				return
			case <-t.C:
				f()
			}
		}
	})
}

// publish publishes at each node in turn, to any queue that is declared.
func (r *run) publish(ctx context.Context) {
	for i, n := range r.nodes {
		random := rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)))
		number := 0
		r.every(publishEvery, func() {
			c, queues := n.live.Load(), r.ledger.declared()
			if c == nil || len(queues) == 0 || r.quiet.Load() {
				return
			}
			q := queues[random.IntN(len(queues))]
			end, err := c.Gateway().Queue(q.uid)
			if err != nil {
				return
			}
			number++
			body := fmt.Sprintf("%s by %s %06d", q.name, n.id, number)
			r.ledger.send(q.uid, body)
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			// After an error the message may be stored or not.
			_ = end.Enqueue(ctx, quorumq.NewMessage{Size: uint32(len(body)), TTLMs: quorumq.Unlimited}, []byte(body), func(err error) {
				if err == nil {
					r.ledger.confirm(q.uid, body)
				}
			})
		})
	}
}

// watch compares the answers of each node with reality: a node whose view counts as fresh knows every queue that
// existed before the oldest moment at which such a view can have been confirmed (EX-16).
func (r *run) watch() {
	r.every(lookEvery, func() {
		for _, n := range r.nodes {
			c, now := n.live.Load(), time.Now()
			if c == nil || !c.Catalog().Fresh() {
				continue
			}
			v := c.View()
			for _, q := range r.ledger.declared() {
				if rec, is := v.Queue(catalog.DefaultVHost, q.name); now.Sub(q.answered) > staleness && (!is || rec.UID != q.uid) {
					r.ledger.broke("EX-16", "node %s says by a fresh view that queue %s (%v) is not there, %v after its declare", n.id, q.name, q.uid, now.Sub(q.answered))
				}
			}
		}
	})
}

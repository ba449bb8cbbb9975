package deadletter

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// bench is a catalog that does not change, a backlog of messages that are all alike, and a
// target that takes everything at once: what is left is the forwarder's own work.
type bench struct {
	view    *catalog.View
	uid     id.QueueUID
	stored  []byte
	changed chan struct{}

	mu          sync.Mutex
	deadLetters quorumq.Seq // in the backlog from the beginning
	settled     quorumq.Seq
	over        chan struct{} // closed when all are settled
}

func newBench(b *testing.B, size int) *bench {
	w := newWorld(b, 1)
	w.exchange(catalog.ExchangeDirect)
	uid := w.declare("source", atLeastOnce)
	w.declare("target", nil)
	w.bind("target", "k")
	return &bench{
		view: w.View(), uid: uid, changed: make(chan struct{}), over: make(chan struct{}), deadLetters: quorumq.Seq(b.N),
		stored: message.Append(nil, &message.Message{RoutingKeys: []string{"k"}, Body: make([]byte, size)}),
	}
}

func (x *bench) View() *catalog.View            { return x.view }
func (x *bench) Changed() <-chan struct{}       { return x.changed }
func (x *bench) Serves() bool                   { return true }
func (x *bench) Current() bool                  { return true }
func (x *bench) ServesChanged() <-chan struct{} { return x.changed }
func (x *bench) Rule(*catalog.View, *catalog.QueueRecord) Rule {
	return Rule{Enabled: true, Exchange: "dlx"}
}
func (x *bench) UID() id.QueueUID { return x.uid }

func (x *bench) AlternateExchange(_ *catalog.View, e *catalog.Exchange) (string, bool) {
	return e.AlternateExchange()
}

func (x *bench) Backlog(dst []quorumq.Discarded, after quorumq.Seq, limit int) ([]quorumq.Discarded, quorumq.Seq, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for seq := max(after, x.settled) + 1; seq <= x.deadLetters && limit > 0; seq++ {
		dst = append(dst, quorumq.Discarded{Seq: seq, Body: quorumq.BodyRef{Index: uint64(seq)}, Reason: quorumq.ReasonExpired, At: 1})
		limit--
	}
	return dst, x.settled, nil
}

func (x *bench) Body(quorumq.BodyRef) ([]byte, error) { return x.stored, nil }

func (x *bench) SettleBacklog(_ context.Context, ranges []quorumq.SeqRange) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range ranges {
		if r.First != x.settled+1 {
			return fmt.Errorf("settled %d to %d after %d", r.First, r.Last, x.settled)
		}
		x.settled = r.Last
	}
	if x.settled == x.deadLetters {
		close(x.over)
	}
	return nil
}

func (x *bench) Transfer(_ context.Context, _ id.QueueUID, t *quorumq.Transfer, _ [][]byte) (quorumq.Reply, error) {
	return quorumq.Reply{Stored: len(t.DeadLetters)}, nil
}

func (x *bench) Enqueue(context.Context, id.QueueUID, quorumq.NewMessage, []byte, func(error)) error {
	return ErrRefused
}

// BenchmarkForwarder is a dead letter's way from the backlog to its settlement.
func BenchmarkForwarder(b *testing.B) {
	for _, size := range []int{12, 1024} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			x := newBench(b, size)
			f := NewForwarder(Config{}, x, x, x)
			b.ReportAllocs()
			b.ResetTimer()
			f.Wake()
			<-x.over
			b.StopTimer()
			f.Close()
			f.Wait()
		})
	}
}

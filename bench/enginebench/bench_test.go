//go:build unix

package enginebench

import (
	"flag"
	"fmt"
	"iter"
	"os"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// What one benchmark takes; `-args -quick` makes them short, to see that they run.
var quick = flag.Bool("quick", false, "rounds of a tenth of their length, and few groups")

const (
	rounds    = 3
	roundTime = 1500 * time.Millisecond
	heldTime  = 4 * time.Second
	loadTime  = time.Second // of the load alone
)

func lengthOf(d time.Duration) time.Duration {
	if *quick {
		return d / 10
	}
	return d
}

func idle() raftfsm.Machine[uint64, struct{}] { return &counter{} }

// oneEach makes an entry of each command, so that entries are of the size that the
// benchmark says.
func oneEach(inFlight int) func(*raftfsm.Config[uint64, struct{}]) {
	return func(c *raftfsm.Config[uint64, struct{}]) { c.MaxBatchCommands, c.MaxInFlight = 1, inFlight }
}

// BenchmarkStores has the shared log and a bolt file per group take turns under the same
// load. Everything else is the same: fsync, links, groups.
func BenchmarkStores(b *testing.B) {
	for _, load := range []struct{ groups, bodies, inFlight int }{{1, 64, 16}, {100, 1, 8}, {1000, 1, 1}} {
		b.Run(fmt.Sprintf("groups=%d/batch=%d", load.groups, load.bodies), func(b *testing.B) {
			groups := load.groups
			if *quick {
				groups = min(groups, 10)
			}
			c := worldConfig[uint64, struct{}]{groups: groups, machine: idle, tune: oneEach(load.inFlight)}
			var worlds []*world[uint64, struct{}]
			for _, s := range []store{shared, bolt} {
				c.store = s
				worlds = append(worlds, newWorld(b, c))
			}
			var ratios, ofShared, ofBolt []float64
			for range b.N {
				for range rounds {
					s := saturate(worlds[0], command(load.bodies), load.inFlight, lengthOf(roundTime))
					o := saturate(worlds[1], command(load.bodies), load.inFlight, lengthOf(roundTime))
					ratios = append(ratios, s.messages/o.messages)
					ofShared, ofBolt = append(ofShared, s.messages), append(ofBolt, o.messages)
				}
			}
			b.ReportMetric(median(ratios), "shared/bolt")
			b.ReportMetric(median(ofShared), "shared-msg/s")
			b.ReportMetric(median(ofBolt), "bolt-msg/s")
		})
	}
}

// BenchmarkProcessor compares the processor time of an entry of 64 messages, all members
// together, with the shared log, on disk and on a file system in memory, and with a log
// in memory.
func BenchmarkProcessor(b *testing.B) {
	const ramDisk = "/dev/shm"
	c := worldConfig[uint64, struct{}]{groups: 1, machine: idle, tune: oneEach(16)}
	open := func(s store, dir string) *world[uint64, struct{}] {
		c.store, c.dir = s, dir
		return newWorld(b, c)
	}
	onDisk, volatile := open(shared, ""), open(inMemory, "")
	inRAM := onDisk
	if _, err := os.Stat(ramDisk); err == nil {
		inRAM = open(shared, ramDisk)
	}
	var ratios, ramRatios, cost, least []float64
	for range b.N {
		for range rounds {
			d := saturate(onDisk, command(64), 16, lengthOf(roundTime))
			r := saturate(inRAM, command(64), 16, lengthOf(roundTime))
			m := saturate(volatile, command(64), 16, lengthOf(roundTime))
			ratios, ramRatios = append(ratios, d.cpu/m.cpu), append(ramRatios, r.cpu/m.cpu)
			cost, least = append(cost, d.cpu), append(least, m.cpu)
		}
	}
	b.ReportMetric(median(ratios), "shared/memory")
	b.ReportMetric(median(ramRatios), "ram-disk/memory")
	b.ReportMetric(median(cost), "shared-µs/entry")
	b.ReportMetric(median(least), "memory-µs/entry")
}

// queue is the machine of a queue; it makes no effects here.
type queue struct {
	*quorumq.Queue
	decoder quorumq.Decoder
}

func (q *queue) Apply(m raftfsm.Meta, header []byte, _ int) (uint64, struct{}, error) {
	c, err := q.decoder.Decode(header)
	if err != nil {
		panic(err) // the benchmark encodes what it submits
	}
	r, _ := q.Queue.Apply(quorumq.Meta{Index: m.Index, FirstSlot: m.FirstSlot, Now: quorumq.Time(m.NowMs)}, c)
	return uint64(r.Code), struct{}{}, nil
}

func (q *queue) Now() int64 { return int64(q.Queue.Now()) }

func (q *queue) Lead(n id.NodeID, term uint64) []byte {
	return quorumq.AppendCommand(nil, &quorumq.Lead{Node: n, Term: term})
}

func (q *queue) Freeze() raftfsm.Frozen { return frozen{q.Queue.Freeze()} }

type frozen struct{ *quorumq.Frozen }

func (f frozen) Live() iter.Seq[raftfsm.BodyRun] {
	return func(yield func(raftfsm.BodyRun) bool) {
		for r := range f.Frozen.Live() {
			if !yield(raftfsm.BodyRun(r)) {
				return
			}
		}
	}
}

func (q *queue) Restore(state []byte) (err error) {
	q.Queue, err = quorumq.Restore(state)
	return err
}

// enqueues makes commands of one publisher that enqueue so many messages each.
func enqueues(each int) func(int) raftfsm.Command {
	body := command(each).Bodies
	enqueue := &quorumq.Enqueue{Enqueuer: quorumq.EnqueuerKey{Node: "n1", Epoch: 1}, First: 1}
	for range each {
		enqueue.Messages = append(enqueue.Messages, quorumq.NewMessage{Size: bodyBytes, TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority})
	}
	return func(int) raftfsm.Command {
		c := raftfsm.Command{Header: quorumq.AppendCommand(nil, enqueue), Bodies: body}
		enqueue.First += quorumq.Seq(each)
		return c
	}
}

// BenchmarkHeld offers 300,000 messages a second to one queue, in commands of 64, and
// leaves the making of entries to the group. Messages stay in the queue. The processor time
// is that of members and load together; the load alone is measured in turns with it.
func BenchmarkHeld(b *testing.B) {
	const perSecond, each = 300_000, 64
	w := newWorld(b, worldConfig[uint64, struct{}]{store: shared, groups: 1, machine: func() raftfsm.Machine[uint64, struct{}] {
		return &queue{Queue: quorumq.New(firstGroup, quorumq.DefaultConfig())}
	}})
	next, unused := enqueues(each), enqueues(each)
	var reached, p50, p99, cores, ofLoad, entries, syncs []float64
	for range b.N {
		for range rounds {
			entriesBefore, syncsBefore := w.work()
			h := hold(w, w.leaders[0].Submit, next, each, float64(perSecond)/each, lengthOf(heldTime))
			e, s := w.work()
			entries, syncs = append(entries, (e-entriesBefore)/h.elapsed), append(syncs, (s-syncsBefore)/h.elapsed)
			reached, cores = append(reached, h.reached), append(cores, h.cores)
			ofLoad = append(ofLoad, hold(w, nobody, unused, each, float64(perSecond)/each, lengthOf(loadTime)).cores)
			p50, p99 = append(p50, float64(h.p50.Microseconds())/1e3), append(p99, float64(h.p99.Microseconds())/1e3)
		}
	}
	b.ReportMetric(median(reached), "msg/s")
	b.ReportMetric(median(p50), "ms-p50")
	b.ReportMetric(median(p99), "ms-p99")
	b.ReportMetric(median(cores), "cores")
	b.ReportMetric(median(ofLoad), "load-cores")
	b.ReportMetric(median(entries), "entries/s")
	b.ReportMetric(median(syncs), "syncs/s")
	for _, n := range w.nodes {
		if err := n.log.Failed(); err != nil {
			b.Fatal(err)
		}
	}
}

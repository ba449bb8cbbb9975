//go:build unix

package enginebench

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/raftfsm"
)

const bodyBytes = 100

// command returns one of so many bodies.
func command(bodies int) raftfsm.Command {
	c := raftfsm.Command{Header: bytes.Repeat([]byte("h"), 16)}
	for range bodies {
		c.Bodies = append(c.Bodies, bytes.Repeat([]byte("b"), bodyBytes))
	}
	return c
}

// processTime returns the time that this process has spent on processors: all members.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// round is what one turn of a load reached.
type round struct {
	messages float64 // per second
	cpu      float64 // microseconds for an entry, all members
}

// saturate keeps so many entries of each group in flight for a while.
func saturate[R, E any](w *world[R, E], c raftfsm.Command, inFlight int, during time.Duration) round {
	w.b.Helper()
	var done atomic.Int64
	var failed atomic.Pointer[error]
	end := time.Now().Add(during)
	var work sync.WaitGroup
	var refill func(g *raftfsm.Group[R, E])
	refill = func(g *raftfsm.Group[R, E]) {
		if time.Now().After(end) {
			work.Done()
			return
		}
		g.Submit(c, func(_ R, err error) {
			if err != nil {
				failed.Store(&err)
				work.Done()
				return
			}
			done.Add(1)
			refill(g)
		})
	}
	begin, cpu := time.Now(), processTime(w.b)
	for _, g := range w.leaders {
		for range inFlight {
			work.Add(1)
			refill(g)
		}
	}
	w.await(&work)
	if err := failed.Load(); err != nil {
		w.b.Fatalf("%s: %v", w.store, *err)
	}
	entries := float64(done.Load())
	return round{
		messages: entries * float64(len(c.Bodies)) / time.Since(begin).Seconds(),
		cpu:      float64((processTime(w.b) - cpu).Microseconds()) / entries,
	}
}

// await waits until all answers are there, or returns which groups have not answered.
func (w *world[R, E]) await(work *sync.WaitGroup) {
	w.b.Helper()
	all := make(chan struct{})
	go func() {
		work.Wait()
		close(all)
	}()
	select {
	case <-all:
		return
	case <-time.After(patience):
	}
	const shown = 5
	stuck := 0
	for _, g := range w.leaders {
		s := g.Stats()
		if s.PendingBytes == 0 && g.Leading() {
			continue
		}
		if stuck++; stuck <= shown {
			w.b.Logf("%v of %s: leading %v, %+v", g.State(), w.store, g.Leading(), s)
		}
	}
	w.b.Fatalf("%s: %d of %d groups have not answered after %v", w.store, stuck, len(w.leaders), patience)
}

// held is what a load at a fixed rate met.
type held struct {
	offered, reached float64 // messages per second
	p50, p99         time.Duration
	cores, elapsed   float64 // of the whole process; seconds
}

// submitter takes a command and answers it some time: a group, or nobody.
type submitter[R any] func(c raftfsm.Command, done func(R, error))

// nobody answers at once, to see what the load itself costs.
func nobody[R any](_ raftfsm.Command, done func(R, error)) {
	var none R
	done(none, nil)
}

// hold offers commands on the clock, whatever the outcome of earlier ones. A commit's time
// counts from when its command was due.
func hold[R, E any](w *world[R, E], to submitter[R], next func(i int) raftfsm.Command, each int, perSecond float64, during time.Duration) held {
	w.b.Helper()
	count := int(perSecond * during.Seconds())
	took := make([]time.Duration, count)
	var refused atomic.Int64
	var failed atomic.Pointer[error]
	var work sync.WaitGroup
	begin, cpu := time.Now(), processTime(w.b)
	for i := range count {
		due := begin.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		work.Add(1)
		to(next(i), func(_ R, err error) {
			switch {
			case errors.Is(err, raftfsm.ErrBusy):
				refused.Add(1)
			case err != nil:
				failed.Store(&err)
			}
			took[i] = time.Since(due)
			work.Done()
		})
	}
	w.await(&work)
	elapsed, cpu := time.Since(begin).Seconds(), processTime(w.b)-cpu
	if err := failed.Load(); err != nil {
		w.b.Fatalf("%s: %v", w.store, *err)
	}
	slices.Sort(took)
	return held{
		offered: perSecond * float64(each),
		reached: float64(count-int(refused.Load())) * float64(each) / elapsed,
		p50:     took[count/2], p99: took[count*99/100],
		cores: cpu.Seconds() / elapsed, elapsed: elapsed,
	}
}

// work counts what the world has done so far: entries of the first group, and syncs of a
// node's log, on average.
func (w *world[R, E]) work() (entries, syncs float64) {
	for _, n := range w.nodes {
		syncs += float64(n.log.Stats().Syncs) / float64(len(w.nodes))
	}
	return float64(w.leaders[0].Stats().Entries), syncs
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorate/quorate/wal/vfs"
)

// shortStride says which of the crash points a short run takes: each third.
const shortStride = 3

// play runs a script until an operation fails. It returns the models that may be found
// afterwards: the one after the last acknowledged operation, and the steps of the next.
func play(t *testing.T, l *Log, ops []op) (possible []string, failed error) {
	t.Helper()
	m := newModel()
	for _, o := range ops {
		g, err := l.Group(7)
		if err == nil {
			err = durably(o, l, g)
		}
		steps := o.steps(m.clone())
		if err != nil {
			possible = append(possible, m.String())
			for _, s := range steps {
				possible = append(possible, s.String())
			}
			return possible, fmt.Errorf("%s: %w", o.name, err)
		}
		m = steps[len(steps)-1]
	}
	return []string{m.String()}, nil
}

// recovered opens the directory that a crash has left, checks what is there, and that it
// is still there after another crash and that the log can be used.
func recovered(t *testing.T, d *vfs.Mem, random *rand.Rand, possible []string, context string) {
	t.Helper()
	for round := range 2 {
		l, err := Open(d, testConfig())
		if err != nil {
			t.Fatalf("%s, round %d: %v", context, round, err)
		}
		if gap, lost := l.Gap(), l.Lost(); gap != nil || len(lost) > 0 {
			t.Fatalf("%s, round %d: %v, gap: %v", context, round, lost, gap)
		}
		got := look(t, groupOf(t, l, 7))
		if !slices.Contains(possible, got) {
			t.Fatalf("%s, round %d:\ngot  %s\nwant %q", context, round, got, possible)
		}
		possible = []string{got}
		if round == 0 {
			rollerIdle(l)
			ok(t, l.tidy())
		} else {
			stored(t, groupOf(t, l, 8), entries(1, 1, 3, 100))
		}
		if got := look(t, groupOf(t, l, 7)); got != possible[0] {
			t.Fatalf("%s, round %d: use changed it:\ngot  %s\nwant %s", context, round, got, possible[0])
		}
		next := d.Crash(vfs.Loss(random.IntN(int(vfs.Losses))), random)
		_ = l.Close() // its disk is off
		d = next
	}
}

// The power goes at every operation on the disk, in turn; what survives of unsynced
// writes differs. All that was acknowledged is there, nothing else appears, and the
// next start is like the first (RE-7).
func TestCrashAtEveryStep(t *testing.T) {
	d := vfs.NewMem()
	l := open(t, d, testConfig())
	if _, err := play(t, l, script()); err != nil {
		t.Fatal(err)
	}
	ok(t, l.Close())
	stride := 1
	if testing.Short() {
		stride = shortStride
		t.Logf("short: every %d. of %d crash points", stride, d.Count(vfs.OpAny))
	}
	for n := 1; n <= d.Count(vfs.OpAny); n += stride {
		for loss := range vfs.Losses {
			random := rand.New(rand.NewPCG(uint64(n), uint64(loss)))
			d := vfs.NewMem()
			d.PowerOffAt(vfs.OpAny, n)
			possible := []string{newModel().String()}
			l, err := Open(d, testConfig())
			if err == nil {
				possible, err = play(t, l, script())
				if err == nil {
					err = l.Close()
				}
			}
			if err == nil {
				continue // compaction and the writer shared a batch that they did not share above
			}
			next := d.Crash(loss, random)
			if l != nil {
				_ = l.Close() // its disk is off
			}
			recovered(t, next, random, possible, fmt.Sprintf("power off at operation %d, loss %d: %v", n, loss, err))
		}
	}
}

// Each write, sync and change of names fails in turn. The operation under way fails, all
// that follow fail with the same error, the owner is notified once, nothing more is begun on the disk, and after a
// new start everything acknowledged is there.
func TestEveryOperationFails(t *testing.T) {
	count := func(op vfs.Op) int {
		d := vfs.NewMem()
		l := open(t, d, testConfig())
		if _, err := play(t, l, script()); err != nil {
			t.Fatal(err)
		}
		ok(t, l.Close())
		return d.Count(op)
	}
	broken := errors.New("the disk is broken")
	for _, kind := range []vfs.Op{vfs.OpWrite, vfs.OpSync, vfs.OpName} {
		stride := 1
		if testing.Short() {
			stride = shortStride
		}
		for n := 1; n <= count(kind); n += stride {
			random := rand.New(rand.NewPCG(uint64(n), uint64(kind)))
			d := vfs.NewMem()
			d.FailAt(kind, n, broken)
			c := testConfig()
			failures := make(chan error, 10)
			c.OnFailure = func(err error) { failures <- err }
			l, err := Open(d, c)
			if errors.Is(err, broken) { // over the inventory of a new log
				recovered(t, d.Crash(vfs.LoseAll, random), random, []string{newModel().String()}, fmt.Sprintf("open: %d. operation of kind %d", n, kind))
				continue
			}
			ok(t, err)
			possible, err := play(t, l, script())
			context := fmt.Sprintf("%d. operation of kind %d failed: %v", n, kind, err)
			if err == nil {
				// Compaction and the writer may share a batch that they did not share above.
				if err = l.Close(); err != nil && !errors.Is(err, broken) {
					t.Fatalf("close: %v, %d. operation of kind %d", err, n, kind)
				}
			} else {
				if !errors.Is(err, broken) {
					t.Fatal(context)
				}
				first := <-failures
				before := d.Count(vfs.OpAny)
				for _, o := range script() {
					g, err := l.Group(9)
					if err == nil {
						err = durably(o, l, g)
					}
					if o.name != "tidy" && !errors.Is(err, first) {
						t.Fatalf("%s: %s afterwards: %v", context, o.name, err)
					}
				}
				if err := l.Close(); !errors.Is(err, broken) {
					t.Fatalf("close: %v", err)
				}
				if after := d.Count(vfs.OpAny); after > before+1 { // one that the roller had begun
					t.Fatalf("%s: the disk was used %d times afterwards", context, after-before)
				}
			}
			loss := vfs.Loss(random.IntN(int(vfs.Losses)))
			recovered(t, d.Crash(loss, random), random, possible, context)
		}
	}
}

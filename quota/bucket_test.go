package quota_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/quota"
)

// passed lets callers publish as fast as the bucket lets them, each asking first and taking later.
func passed(b *quota.Bucket, callers int, units float64, from, to time.Duration) (taken float64) {
	for now := from; now < to; {
		wait := time.Duration(0)
		ready := 0
		for range callers {
			if wait = b.Wait(now); wait == 0 {
				ready++
			}
		}
		for range ready {
			b.Take(now, units)
			taken += units
		}
		now += max(wait, 10*time.Microsecond)
	}
	return taken
}

// VH-14: over a time no more passes than the rate and a burst, and no less than the rate.
func TestRate(t *testing.T) {
	for _, x := range []struct {
		rate    float64
		callers int
		units   float64
	}{{1000, 1, 1}, {1000, 20, 1}, {3, 1, 1}, {1, 2, 1}, {1 << 20, 1, 1000}, {1 << 20, 4, 3 << 20}} {
		var b quota.Bucket
		b.SetRate(0, x.rate)
		const seconds = 20
		got := passed(&b, x.callers, x.units, 0, seconds*time.Second)
		most := x.rate*(seconds+0.1) + 1 + float64(x.callers)*x.units
		if least := x.rate*seconds*0.99 - x.units - 1; got > most || got < least {
			t.Errorf("%+v: %v passed, want %v to %v", x, got, least, most)
		}
	}
}

func TestRateOfZero(t *testing.T) {
	var b quota.Bucket
	b.SetRate(0, 0)
	if got := passed(&b, 1, 1, 0, time.Minute); got > 0 || b.Wait(time.Hour) != quota.Forever {
		t.Errorf("%v passed", got)
	}
	b.SetRate(2*time.Hour, 10)
	if wait := b.Wait(2 * time.Hour); wait != 0 {
		t.Errorf("waits %v after the rate was raised", wait)
	}
}

// One wait is for many messages: nobody needs a timer for each.
func TestQuantum(t *testing.T) {
	var b quota.Bucket
	b.SetRate(0, 100_000)
	waits, now := 0, time.Duration(0)
	for n := 0; n < 100_000; {
		if wait := b.Wait(now); wait > 0 {
			waits++
			now += wait
			continue
		}
		b.Take(now, 1)
		n++
	}
	if waits > 105 {
		t.Errorf("%d waits for 100,000 messages", waits)
	}
}

// A lower rate counts at once, and a debt is not forgiven by a change.
func TestChange(t *testing.T) {
	var b quota.Bucket
	b.SetRate(0, 1000)
	b.Take(0, 1100)
	b.SetRate(0, 2000)
	if wait := b.Wait(0); wait < 500*time.Millisecond || wait > 520*time.Millisecond {
		t.Errorf("waits %v for a debt of 1000 at 2000 a second", wait)
	}
	b.SetRate(time.Minute, 10)
	if got := passed(&b, 1, 1, time.Minute, time.Minute+10*time.Second); got > 102 {
		t.Errorf("%v passed in 10 s at 10 a second", got)
	}
}

func TestShare(t *testing.T) {
	inf := math.Inf(1)
	for _, x := range []struct {
		rate, own float64
		others    []float64
		nodes     int
		want      float64
	}{
		{1000, inf, nil, 1, 1000},
		{1000, inf, []float64{0, 0}, 3, 1000},
		{1000, inf, []float64{inf, 0}, 3, 500},
		{1000, inf, []float64{200, 0}, 3, 800},
		{1000, 200, []float64{inf, 0}, 3, 1000.0 / 3},
		{900, inf, []float64{inf, inf}, 3, 300},
		{900, 0, []float64{0, 0}, 3, 300},
		{900, 300, []float64{0, 0}, 3, 500},
		{900, inf, nil, 3, 900}, // the others did not answer
	} {
		if got := quota.Share(x.rate, x.own, x.others, x.nodes); math.Abs(got-x.want) > 1e-6 {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// VH-14: what nodes use that know what all want is never more than the rate, and all of it where
// that much is wanted.
func TestSharesAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		nodes := 1 + r.IntN(7)
		wants := make([]float64, nodes)
		for i := range wants {
			wants[i] = r.Float64() * 600 * float64(r.IntN(3))
			if r.IntN(4) == 0 {
				wants[i] = math.Inf(1)
			}
		}
		used, wanted := 0.0, 0.0
		for i, own := range wants {
			others := append(append([]float64{}, wants[:i]...), wants[i+1:]...)
			used += min(own, quota.Share(1000, own, others, nodes))
			wanted += own
		}
		if used > 1000+1e-6 || used < min(wanted, 1000)-1e-6 {
			t.Fatalf("%v use %v", wants, used)
		}
	}
}

func TestMeter(t *testing.T) {
	var m quota.Meter
	m.Add(100)
	if got := m.Wants(0.01); got != 1000 {
		t.Errorf("just begun: %v", got)
	}
	m.Next(1)
	if got := m.Wants(1.5); got != 100 {
		t.Errorf("of the last second: %v", got)
	}
	if m.Hold(); !math.IsInf(m.Wants(1.6), 1) {
		t.Error("held back, and it wants no more")
	}
	if got := m.Rate(1.6); got != 100 {
		t.Errorf("a rate of %v while held back", got)
	}
	m.Next(2)
	m.Next(3)
	if got := m.Wants(3); got != 0 {
		t.Errorf("after silence: %v", got)
	}
}

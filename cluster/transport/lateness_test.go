package transport

import (
	"testing"
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// beating is a pair of pulses whose beats come as a test says.
type beating struct {
	asker, asked *pulse
	now          time.Time
	sent         []*nodev1.Ping // and not read
}

func newBeating(every, pingTimeout time.Duration) *beating {
	m := &Mux{config: Config{BeatEvery: every, PingTimeout: pingTimeout}}
	now := time.Unix(1000, 0)
	return &beating{asker: &pulse{m: m, asks: true, last: now}, asked: &pulse{m: m, last: now}, now: now}
}

// run lets beats be due for a while. What is due while either end does nothing comes when it
// goes on: stops tells for how long it does nothing, again and again, as often as every says.
func (b *beating) run(during, every, stops time.Duration, answers bool) {
	for end, began := b.now.Add(during), b.now; b.now.Before(end); b.now = b.now.Add(b.asker.m.config.BeatEvery) {
		p := b.asker
		if p.number++; p.since.IsZero() {
			p.since = b.now
		}
		b.sent = append(b.sent, &nodev1.Ping{Number: p.number, Heard: p.heard})
		if every > 0 && b.now.Sub(began)%every < stops {
			continue
		}
		for _, ping := range b.sent {
			b.asked.hear(b.now, ping)
			if answers {
				p.hear(b.now, &nodev1.Ping{Number: ping.GetNumber()})
			}
		}
		b.sent = nil
	}
}

func TestLateness(t *testing.T) {
	const every, timeout = 250 * time.Millisecond, time.Second
	const inTime = timeout + timeout/20 // patience with who is hardly ever late
	for _, c := range []struct {
		name        string
		run         func(*beating)
		least, most time.Duration // patience at both ends
	}{
		{"in time", func(b *beating) {
			b.run(time.Minute, 0, 0, true)
		}, timeout, timeout},
		{"always late", func(b *beating) {
			b.run(time.Minute, time.Second, 3*every, true)
		}, 2 * timeout, (1 + mostLeniency) * timeout},
		{"late, and worse than anything", func(b *beating) {
			b.run(time.Minute, 40*time.Second, 39*time.Second, true)
		}, (1 + mostLeniency) * timeout, (1 + mostLeniency) * timeout},
		{"late long ago", func(b *beating) {
			b.run(time.Minute, time.Second, 3*every, true)
			b.run(5*latenessOver, 0, 0, true)
		}, timeout, inTime},
		{"frozen once for nearly too long", func(b *beating) {
			b.run(time.Minute, 0, 0, true)
			b.run(timeout, timeout, timeout-every, true)
		}, timeout, timeout + timeout*6/10},
		{"only one of them is heard: that is no lateness", func(b *beating) {
			b.run(time.Minute, 0, 0, true)
			b.run(time.Minute, 0, 0, false)
		}, timeout, timeout},
		{"silent for ever", func(b *beating) {
			b.run(time.Minute, 0, 0, true)
			b.run(time.Hour, time.Hour, time.Hour, true)
		}, timeout, timeout},
	} {
		b := newBeating(every, timeout)
		c.run(b)
		for end, p := range map[string]*pulse{"asker": b.asker, "asked": b.asked} {
			if d := p.patience(); d < c.least || d > c.most {
				t.Errorf("%s: the %s has patience for %v, want %v to %v", c.name, end, d, c.least, c.most)
			}
		}
	}
}

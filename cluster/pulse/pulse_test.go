package pulse

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Whichever direction is held up, both ends learn of it within one period of each other.
func TestHeartbeatsJudgeBothDirections(t *testing.T) {
	const period = 100 * time.Millisecond
	for _, c := range []struct {
		name      string
		hears     bool // the one that is asked hears the asker
		heardBack bool
	}{
		{name: "both ways", hears: true, heardBack: true},
		{name: "answers are lost", hears: true},
		{name: "questions are lost", heardBack: true},
		{name: "silence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New(Config{Every: period}, nil)
			asker, asked := &Pulse{shared: m.shared, asks: true}, &Pulse{shared: m.shared}
			now := time.Unix(1000, 0)
			begin := now
			asked.last = now
			for n := uint64(1); n <= 8; n++ {
				good := n <= 3
				asker.number = n
				if asker.since.IsZero() {
					asker.since = now
				}
				if good || c.hears {
					asked.hear(now, &nodev1.Ping{Number: n, Heard: asker.heard})
					if good || c.heardBack {
						asker.hear(now, &nodev1.Ping{Number: n})
					}
				}
				now = now.Add(period)
			}
			want := 5 * period // the fourth ping, at 300 ms, is the first one that fails; it is 800 ms
			if c.hears && c.heardBack {
				want = 0
			}
			if d := asker.Unanswered(now, begin); d != want {
				t.Errorf("the asker has %v unanswered, want %v", d, want)
			}
			if d := asked.Unanswered(now, begin); d != want {
				t.Errorf("the one that is asked has %v unanswered, want %v", d, want)
			}
		})
	}
}

// A delay is over with the next heartbeat that goes both ways.
func TestHeartbeatsComeBack(t *testing.T) {
	m := New(Config{Every: 100 * time.Millisecond}, nil)
	p := &Pulse{shared: m.shared}
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, b := range []struct {
		ms            int
		number, heard uint64
		unanswered    time.Duration
	}{
		{0, 1, 0, 0},
		{100, 2, 1, 0},
		{200, 3, 1, 100 * time.Millisecond}, // the answer of 100 is missing
		{300, 4, 1, 200 * time.Millisecond},
		{400, 5, 3, 100 * time.Millisecond}, // those up to 200 came; the one of 300 did not
		{500, 6, 5, 0},
	} {
		if ok := p.hear(at(b.ms), &nodev1.Ping{Number: b.number, Heard: b.heard}); ok != (b.unanswered == 0) {
			t.Errorf("after heartbeat %d: %v", b.number, ok)
		}
		if d := p.Unanswered(at(b.ms), at(0)); d != b.unanswered {
			t.Errorf("after heartbeat %d %v is unanswered, want %v", b.number, d, b.unanswered)
		}
	}
	if d := p.Unanswered(at(5000), at(4000)); d != 900*time.Millisecond {
		t.Errorf("a connection of 4000 ms has %v unanswered at 5000", d)
	}
}

// The connection of another process of the peer, which is gone, does not show that it has a way here.
func TestJudges(t *testing.T) {
	one, other := net.Pipe()
	t.Cleanup(func() { _, _ = one.Close(), other.Close() })
	began := time.Now()
	p := New(Config{Node: "n2", Every: time.Hour}, nil).Of("n1")
	if p.Judges(began, 1) {
		t.Error("silence counts against a peer that has never asked")
	}
	p.conn, p.epoch = one, 1
	if !p.Judges(began, 1) || p.Judges(began, 2) {
		t.Errorf("silence counts against the process that is connected: %v, against the next one: %v", p.Judges(began, 1), p.Judges(began, 2))
	}
	p.last = began
	if !p.Judges(began, 2) {
		t.Error("silence does not count against a peer that has asked")
	}
}

// A connection that a newer process of the peer has taken the place of is refused.
func TestOlderConnection(t *testing.T) {
	one, other := net.Pipe()
	t.Cleanup(func() { _, _ = one.Close(), other.Close() })
	p := New(Config{Node: "n2", Every: time.Hour}, nil).Of("n1")
	p.conn, p.epoch = one, 3
	err := p.Serve(other, NewReader(other), 2, func() error { return nil })
	if over, is := errors.AsType[*OverError](err); !is || *over != (OverError{Node: "n1", Epoch: 2, Newest: 3}) {
		t.Errorf("%v", err)
	}
}

// What is too long, cut off or no message is an error, and no more is read for it.
func TestReadHeartbeatFaults(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, {0, 5, 1}, {0xff, 0xff, 1, 2, 3}, {0, 2, 0xff, 0xff}} {
		var m nodev1.Ping
		if err := Read(bufio.NewReaderSize(bytes.NewReader(b), heartbeatHead+maxHeartbeatBytes), &m); err == nil {
			t.Errorf("%x is read as %v", b, &m)
		}
	}
	var long bytes.Buffer
	if err := Write(&long, &nodev1.HeartbeatHello{Refusal: strings.Repeat("x", maxHeartbeatBytes)}); err == nil || long.Len() > 0 {
		t.Errorf("%v, %d bytes", err, long.Len())
	}
}

package quorumq

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// pastWord sets what a word such as "since=100" of a message line says of the message's past; false: it says
// something else.
func pastWord(m *NewMessage, name string, n int64) bool {
	p := Past{}
	if m.Past != nil {
		p = *m.Past
	}
	switch name {
	case "since":
		p.At = Time(n)
	case "failed":
		p.DeliveryCount = uint32(n)
	case "acquired":
		p.AcquiredCount = uint32(n)
	case "reason":
		p.Reason = Reason(n)
	case "to":
		p.To = &Destination{Kind: ToQueue, Name: fmt.Sprint("q", n)}
	default:
		return false
	}
	m.Past = &p
	return true
}

// formatSaved shows what a backup keeps of a queue.
func formatSaved(q *Queue) string {
	var b strings.Builder
	for s := range q.Save() {
		fmt.Fprintf(&b, "%s since=%d prio=%d", ref(s.Body), s.At, s.Priority)
		for _, x := range []struct {
			name  string
			value int64
			show  bool
		}{
			{"ttl", s.TTLMs, s.TTLMs != Unlimited},
			{"due", int64(s.Due), s.Due != 0},
			{"failed", int64(s.DeliveryCount), s.DeliveryCount > 0},
			{"acquired", int64(s.AcquiredCount), s.AcquiredCount > 0},
			{"reason", int64(s.Reason), s.Reason > 0},
		} {
			if x.show {
				fmt.Fprintf(&b, " %s=%d", x.name, x.value)
			}
		}
		if s.Annotations != (BodyRef{}) {
			fmt.Fprintf(&b, " annotations=%s", ref(s.Annotations))
		}
		if s.To != nil {
			fmt.Fprintf(&b, " to=%s", s.To.Name)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestSavedAndRestored saves queues in random states, restores them into empty ones of the same configuration, and
// saves these: both must be the same.
func TestSavedAndRestored(t *testing.T) {
	total := 0
	for seed := range uint64(200) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 3)), index: 1, scale: 1}
		q := New(1024, g.config())
		g.q = q
		for range 300 {
			cmd := g.command()
			q.Apply(g.meta(cmd), cmd)
		}
		if q.drainDeleting {
			continue
		}
		saved := slices.Collect(q.Save())
		c := q.config
		total += len(saved)
		c.MaxLength, c.MaxLengthBytes, c.MaxLengthTotal = Unlimited, Unlimited, Unlimited
		restored := New(2048, c)
		restored.now = q.now
		cmd := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1}
		for i := range saved {
			s := &saved[i]
			cmd.Messages = append(cmd.Messages, NewMessage{Size: s.Size, TTLMs: s.TTLMs, Priority: s.Priority, Delay: Delay{At: s.Due}, Past: &s.Past})
		}
		var dec Decoder
		decoded, err := dec.Decode(AppendCommand(nil, cmd))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r, _ := restored.Apply(Meta{Index: 1, Now: q.now}, decoded)
		if r.Code != CodeOK || len(r.Refused) > 0 {
			t.Fatalf("seed %d: %+v", seed, r)
		}
		if err := restored.check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again := slices.Collect(restored.Save())
		if len(again) != len(saved) {
			t.Fatalf("seed %d: %d messages, saved %d", seed, len(again), len(saved))
		}
		for i := range again {
			want, got := saved[i], again[i]
			if got.Body.Slot != uint32(i) {
				t.Fatalf("seed %d: message %d is %v", seed, i, got)
			}
			got.Body, want.Body, want.Annotations = BodyRef{}, BodyRef{}, BodyRef{}
			if want.Reason > 0 || want.To != nil {
				got.At, want.At = 0, 0 // the time of the discard, which is now
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: message %d of %d is\n%+v, saved as\n%+v", seed, i, len(saved), got, want)
			}
		}
	}
	t.Logf("%d messages were saved", total)
	if total < 1000 {
		t.Errorf("only %d messages were saved: the test shows little", total)
	}
}

package deadletter_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

func reasonOf(t *testing.T, s string) quorumq.Reason {
	t.Helper()
	for _, r := range []quorumq.Reason{
		quorumq.ReasonRejected, quorumq.ReasonExpired, quorumq.ReasonMaxLen, quorumq.ReasonDeliveryLimit,
	} {
		if r.String() == s {
			return r
		}
	}
	t.Fatalf("unknown reason %q", s)
	return 0
}

// TestScripts follows one message per file. "publish" makes it, "die" sends it through
// Rewrite, "cyclic" asks about targets; "die" also checks that its input stayed as it was.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var m message.Message
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "publish":
				m = published(t, d)
				return show(&m)
			case "die":
				before := message.Append(nil, &m)
				next := deadletter.Rewrite(&m, discard(t, d))
				if !bytes.Equal(message.Append(nil, &m), before) {
					t.Fatalf("%s: Rewrite changed its input", d.Pos)
				}
				stored, err := message.Decode(message.Append(nil, &next))
				if err != nil {
					t.Fatalf("%s: %v", d.Pos, err)
				}
				m = *stored
				return show(&m)
			case "cyclic":
				var out strings.Builder
				for target := range strings.FieldsSeq(d.Input) {
					fmt.Fprintln(&out, target, deadletter.Cyclic(m.Deaths, target))
				}
				return out.String()
			}
			d.Fatalf(t, "unknown directive")
			return ""
		})
	})
}

func published(t *testing.T, d *datadriven.TestData) message.Message {
	t.Helper()
	m := message.Message{
		Properties: message.Properties{
			ContentType: "text/plain", DeliveryMode: 1, Priority: 3, MessageID: "m", Timestamp: 1, UserID: "u",
		},
		Body: []byte("body"),
	}
	list := func(key string) (values []message.Value) {
		for _, a := range d.CmdArgs {
			for _, v := range a.Vals {
				if a.Key == key {
					values = append(values, message.String(v))
				}
			}
		}
		return values
	}
	d.MaybeScanArgs(t, "exchange", &m.Exchange)
	d.MaybeScanArgs(t, "expiration", &m.Expiration)
	for _, kind := range []string{"key", "cc", "bcc"} {
		for _, v := range list(kind) {
			s, _ := v.AsString()
			m.RoutingKeys = append(m.RoutingKeys, s)
		}
	}
	m.BCCCount = len(list("bcc"))
	if cc := list("cc"); len(cc) > 0 {
		m.Headers.Set("CC", message.Array(cc...))
	}
	for _, v := range list("header") {
		s, _ := v.AsString()
		m.Headers.Set(s, message.String("client's"))
	}
	return m
}

func discard(t *testing.T, d *datadriven.TestData) deadletter.Discard {
	t.Helper()
	var reason string
	var out deadletter.Discard
	var delivered, acquired int
	d.ScanArgs(t, "queue", &out.Queue)
	d.ScanArgs(t, "reason", &reason)
	out.Reason = reasonOf(t, reason)
	d.MaybeScanArgs(t, "at", &out.NowMs)
	d.MaybeScanArgs(t, "delivered", &delivered)
	d.MaybeScanArgs(t, "acquired", &acquired)
	out.DeliveryCount, out.AcquiredCount = uint32(delivered), uint32(acquired)
	d.MaybeScanArgs(t, "dlx", &out.Exchange)
	out.HasRoutingKey = d.MaybeScanArgs(t, "dlk", &out.RoutingKey)
	return out
}

func show(m *message.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "exchange %q keys %q bcc %d", m.Exchange, m.RoutingKeys, m.BCCCount)
	if m.Present()&message.HasExpiration != 0 {
		fmt.Fprintf(&b, " expiration %q", m.Expiration)
	}
	fmt.Fprintf(&b, "\nheaders %v\n", m.Headers)
	for _, d := range m.Deaths {
		fmt.Fprintf(&b, "death %s %s count %d first %d last %d exchange %q keys %q delivered %d acquired %d",
			d.Queue, d.Reason, d.Count, d.FirstTimeMs, d.LastTimeMs, d.Exchange, d.RoutingKeys, d.DeliveryCount, d.AcquiredCount)
		if d.HasTTL {
			fmt.Fprintf(&b, " ttl %d", d.TTLMs)
		}
		b.WriteByte('\n')
	}
	if len(m.Deaths) > 0 {
		fmt.Fprintf(&b, "first %s %s %q, last %s %s %q\n", m.FirstDeath.Queue, m.FirstDeath.Reason, m.FirstDeath.Exchange,
			m.LastDeath.Queue, m.LastDeath.Reason, m.LastDeath.Exchange)
	}
	return b.String()
}

// DL-39: what the rules do not name stays as it was.
func TestRewriteKeepsTheRest(t *testing.T) {
	m := message.Message{
		Properties: message.Properties{
			ContentType: "a", ContentEncoding: "b", CorrelationID: "c", ReplyTo: "d", MessageID: "e", Type: "f",
			UserID: "g", AppID: "h", Timestamp: 1, DeliveryMode: 1, Priority: 3, Expiration: "5",
			Has: message.HasExpiration | message.HasPriority | message.HasHeaders,
		},
		Headers:     message.Table{{Name: "own", Value: message.Int8(1)}},
		RoutingKeys: []string{"k"},
		Annotations: message.Table{{Name: "x-note", Value: message.Int8(2)}},
		Body:        []byte("body"),
	}
	out := deadletter.Rewrite(&m, deadletter.Discard{Queue: "q", Reason: quorumq.ReasonRejected, Exchange: "dlx"})
	want := m
	want.Expiration = ""
	want.Has &^= message.HasExpiration
	want.Exchange = "dlx"
	want.Deaths, want.FirstDeath, want.LastDeath = out.Deaths, out.FirstDeath, out.LastDeath
	if !bytes.Equal(message.Append(nil, &out), message.Append(nil, &want)) {
		t.Errorf("got  %+v\nwant %+v", out, want)
	}
	if &out.Body[0] != &m.Body[0] {
		t.Error("the body was copied")
	}
}

// The list of deaths is bounded; the first death outlives its entry.
func TestRewriteBoundsDeaths(t *testing.T) {
	m := message.Message{}
	for i := range message.MaxDeaths + 5 {
		m = deadletter.Rewrite(&m, deadletter.Discard{
			Queue: fmt.Sprint("q", i), Reason: quorumq.ReasonExpired, NowMs: int64(i),
		})
	}
	if len(m.Deaths) != message.MaxDeaths || m.Deaths[0].Queue != "q104" || m.FirstDeath.Queue != "q0" {
		t.Errorf("%d deaths, newest in %s, first in %s", len(m.Deaths), m.Deaths[0].Queue, m.FirstDeath.Queue)
	}
	if _, err := message.Decode(message.Append(nil, &m)); err != nil {
		t.Error(err)
	}
}

// G-11: the highest count stays the highest, and so does what all have together (DL-43).
func TestRewriteSaturates(t *testing.T) {
	m := &message.Message{Deaths: []message.Death{
		{Queue: "q", Reason: "expired", Count: math.MaxInt64}, {Queue: "r", Reason: "expired", Count: math.MaxInt64},
	}}
	got := deadletter.Rewrite(m, deadletter.Discard{Queue: "q", Reason: quorumq.ReasonExpired})
	if n := got.Deaths[0].Count; n != math.MaxInt64 {
		t.Errorf("the count is %d", n)
	}
	if n := deadletter.Hops(got.Deaths); n != math.MaxInt64 {
		t.Errorf("together they are %d", n)
	}
}

// DL-42: the worked examples. Each step names the queue, the reason and the target; the
// message goes round until a step is cyclic.
func TestCyclicExamples(t *testing.T) {
	type step struct {
		queue  string
		reason quorumq.Reason
		target string
	}
	for name, c := range map[string]struct {
		steps []step
		drop  int // the step that is dropped, -1 for none
	}{
		"A expired to A": {[]step{{"A", quorumq.ReasonExpired, "A"}}, 0},
		"A maxlen to A":  {[]step{{"A", quorumq.ReasonMaxLen, "A"}}, 0},
		"A limit to A":   {[]step{{"A", quorumq.ReasonDeliveryLimit, "A"}}, 0},
		"A expired to B expired to A": {
			[]step{{"A", quorumq.ReasonExpired, "B"}, {"B", quorumq.ReasonExpired, "A"}}, 1,
		},
		"A rejected to B expired to A, again and again": {
			slices.Repeat([]step{{"A", quorumq.ReasonRejected, "B"}, {"B", quorumq.ReasonExpired, "A"}}, 5), -1,
		},
		"A rejected to A": {slices.Repeat([]step{{"A", quorumq.ReasonRejected, "A"}}, 5), -1},
		"A rejected to B expired to B": {
			[]step{{"A", quorumq.ReasonRejected, "B"}, {"B", quorumq.ReasonExpired, "B"}}, 1,
		},
		"A rejected to B expired to C expired to A": {
			[]step{
				{"A", quorumq.ReasonRejected, "B"}, {"B", quorumq.ReasonExpired, "C"}, {"C", quorumq.ReasonExpired, "A"},
			}, -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := message.Message{}
			for i, s := range c.steps {
				m = deadletter.Rewrite(&m, deadletter.Discard{Queue: s.queue, Reason: s.reason, NowMs: int64(i)})
				if got := deadletter.Cyclic(m.Deaths, s.target); got != (i == c.drop) {
					t.Fatalf("step %d, %s to %s: cyclic %v; deaths %+v", i, s.queue, s.target, got, m.Deaths)
				}
			}
		})
	}
	if deadletter.Cyclic(nil, "A") {
		t.Error("no deaths and yet a cycle")
	}
}

func BenchmarkRewrite(b *testing.B) {
	m := message.Message{
		Exchange: "orders", RoutingKeys: []string{"k"}, Headers: message.Table{{Name: "own", Value: message.Int8(1)}},
		Body: make([]byte, 1024),
	}
	d := deadletter.Discard{Queue: "q", Reason: quorumq.ReasonRejected, NowMs: 1, Exchange: "dlx"}
	b.ReportAllocs()
	for b.Loop() {
		out := deadletter.Rewrite(&m, d)
		if len(out.Deaths) != 1 {
			b.Fatal("no death")
		}
	}
}

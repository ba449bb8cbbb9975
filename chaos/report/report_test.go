package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
)

// begun is the wall clock when the histories of these tests began.
var begun = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// recorded is the history of a run of this length with a fault every so often. A message is published every step,
// confirmed after 3 ms and delivered after 5, except for half a second from each fault on; the last one is lost.
func recorded(length, step, faults time.Duration) []history.Event {
	const class, queue = "grpc/all", "chaos.publish.q"
	out := []history.Event{
		{Kind: history.Began, Settings: &history.Settings{
			At: begun, Seed: 7, Command: "quoratectl chaos run --seed 7", Nodes: []string{"n1", "n2", "n3"}, MaxPause: 1, Target: "processes",
			Workloads: []history.Workload{{Name: "publish", Does: "publishes <b>", Prefix: "chaos.publish"}},
		}},
		{Kind: history.Declared, Queue: queue, Spec: &history.Queue{DeliveryLimit: -1, Ordered: true}},
		{Kind: history.Leader, Queue: queue, Node: "n1"},
		{Kind: history.Resources, Node: "n1", Figures: map[string]float64{"goroutines": 10, "resident_bytes": 50e6}},
	}
	add := func(at time.Duration, e history.Event) {
		e.At = at
		out = append(out, e)
	}
	next, n, healed := faults/2, 0, time.Duration(-1)
	for at, id := time.Duration(0), uint64(1); at < length; at, id = at+step, id+1 {
		sent := at
		if at >= next {
			n++
			hit := history.Event{Fault: n, Nodes: []string{fmt.Sprintf("n%d", n%3+1)}, Note: []string{"kill of leader", "pause of <anyone>"}[n%2], Class: []string{"killed", "paused"}[n%2]}
			hit.Kind = history.Fault
			add(at, hit)
			add(at, history.Event{Kind: history.Leader, Queue: queue, Node: fmt.Sprintf("n%d", (n+1)%3+1)})
			at += 500 * time.Millisecond
			healed = at + time.Second
			next += faults
		}
		if healed >= 0 && at >= healed {
			add(at, history.Event{Kind: history.Bit, Fault: n, Note: "it was felt", Again: true})
			add(at, history.Event{Kind: history.Healed, Fault: n})
			healed = -1
		}
		m := history.Event{Client: class, Publisher: 1, ID: id}
		published, confirmed, delivered, acked := m, m, m, m
		published.Kind, published.Queues = history.Published, []string{queue}
		confirmed.Kind, confirmed.Sent = history.Confirmed, sent
		delivered.Kind, delivered.Queue, delivered.Consumer = history.Delivered, queue, "c1"
		acked.Kind, acked.Queue, acked.Consumer, acked.Outcome = history.Deciding, queue, "c1", history.Ack
		add(sent, published)
		add(at+3*time.Millisecond, confirmed)
		if at+step < length {
			add(at+5*time.Millisecond, delivered)
			add(at+5*time.Millisecond, acked)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Event) int { return int(a.At - b.At) })
	add(length, history.Event{Kind: history.Bit, Queue: "chaos.publish", Note: "no <queue> hibernated"})
	add(length+time.Second, history.Event{Kind: history.Drained, Queue: queue})
	add(length+time.Second, history.Event{Kind: history.Resources, Node: "n1", Figures: map[string]float64{"goroutines": 11, "resident_bytes": 60e6}})
	return out
}

func made(events []history.Event) *Report { return New(events, check.Check(events), nil) }

// The report has what the history says, in each of its parts.
func TestReport(t *testing.T) {
	r := made(recorded(40*time.Second, 20*time.Millisecond, 10*time.Second))
	if r.Verdict != check.Invalid || r.Counts.Faults != 4 || len(r.Recoveries) != 4 || r.Breaches["no confirmed message is lost"] != 1 {
		t.Errorf("%s, %+v, %v", r.Verdict, r.Counts, r.Breaches)
	}
	if len(r.Kinds) != 2 || r.Kinds[0].Name != "kill" || r.Kinds[0].Faults != 2 || r.Kinds[0].Felt != 2 || r.Kinds[0].P50 != 503*time.Millisecond {
		t.Errorf("kinds %+v", r.Kinds)
	}
	if w := r.Kinds[0].Clients; len(w) != 1 || w[0].Pause < 500*time.Millisecond || w[0].Limit != time.Second || w[0].Beyond {
		t.Errorf("pauses %+v", w)
	}
	w, c := r.Workloads[0], r.Clients[0]
	if w.Bit != "no <queue> hibernated" || w.Felt {
		t.Errorf("what the workload lacks: %q, %t", w.Bit, w.Felt)
	}
	if w.Queues != 1 || w.Published != r.Counts.Published || w.Confirmed != w.Published || w.Delivered != w.Published-1 || w.Redelivered != 0 {
		t.Errorf("workload %+v", w)
	}
	if c.Class != "grpc/all" || c.Confirmed != w.Confirmed || c.P50 != 3*time.Millisecond || c.Received != w.Delivered {
		t.Errorf("client %+v", c)
	}
	if s := r.Series; s.Step != time.Second || len(s.Confirms) != 42 || s.Confirms[1] != 50 || s.P99[1] != 3 || s.Confirms[41] != 0 {
		t.Errorf("series %+v", s)
	}
	if len(r.Leaders) != 5 || r.Leaders[0].To != r.Leaders[1].From || r.Leaders[4].To != r.Took || len(r.Resources) != 2 {
		t.Errorf("leaders %+v, resources %+v", r.Leaders, r.Resources)
	}
	var b bytes.Buffer
	if err := r.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.Settings.Seed != 7 || len(back.Recoveries) != 4 || back.Guarantees[0].Name == "" {
		t.Errorf("the JSON read again: %v, %+v", err, back.Settings)
	}
}

// The page is whole, has each part, loads nothing from anywhere, and shows names as text.
func TestHTML(t *testing.T) {
	r := made(recorded(40*time.Second, 20*time.Millisecond, 10*time.Second))
	r.AddLogs(map[string][]byte{"n2": []byte("time=2030-01-02T03:04:44.500Z level=WARN msg=\"<script>\"\n")})
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"seed 7", "invalid: a guarantee was broken", "quoratectl chaos run --seed 7", "<h2>Timeline</h2>", "<h2>Guarantees</h2>", "broken 1 times",
		"<h2>What nodes logged around findings</h2>", "&lt;script&gt;", "<h2>Faults by kind</h2>", "pause of &lt;anyone&gt;", "Worst pause grpc/all",
		"<h2>Workloads</h2>", "publishes &lt;b&gt;", "no &lt;queue&gt; hibernated", "<h2>Clients</h2>", "<h2>Resources of nodes</h2>", "60.0 MB", `class="line confirms"`, `class="node n1"`,
		`class="breach"`, "prefers-color-scheme:dark",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"<script", "http://", "https://", "src=", "@import", "url(", "NaN", "Inf", "%!", "ZgotmplZ"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
	svg := page[strings.Index(page, "<svg"):strings.Index(page, "</svg>")] + "</svg>"
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the drawing is not well formed: %v", err)
		}
	}
}

// A run of an hour with a fault every six seconds fits into three megabytes, and its series into few
// points.
func TestHour(t *testing.T) {
	r := made(recorded(time.Hour, 100*time.Millisecond, 6*time.Second))
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 3<<20 || len(r.Series.P50) > maxPoints+2 || r.Counts.Faults < 500 {
		t.Errorf("%d bytes, %d points, %d faults", b.Len(), len(r.Series.P50), r.Counts.Faults)
	}
	t.Logf("%d bytes", b.Len())
}

// What could not be recorded is shown all the same.
func TestNothingRecorded(t *testing.T) {
	for _, events := range [][]history.Event{nil, {{Kind: history.Led}}} {
		r := New(events, check.Check(events), errors.New("node n1 did not start"))
		var b bytes.Buffer
		if err := r.HTML(&b); err != nil || !strings.Contains(b.String(), "node n1 did not start") {
			t.Errorf("%v\n%s", err, &b)
		}
	}
}

// Lines are found by their time, in both forms of logs, and long ones are cut.
func TestLogs(t *testing.T) {
	r := &Report{Settings: history.Settings{At: begun}, Guarantees: []check.Guarantee{{Name: "g", Broken: []check.Finding{{At: 10 * time.Second, Why: "w"}}}}}
	r.AddLogs(map[string][]byte{
		"n1": []byte("time=2030-01-02T03:04:12.900Z msg=before\ntime=2030-01-02T03:04:13.100Z msg=" + strings.Repeat("x", 1000) + "\nno time\n"),
		"n2": []byte("{\"time\":\"2030-01-02T03:04:15Z\",\"msg\":\"at\"}\n{\"time\":\"2030-01-02T03:04:17.5Z\",\"msg\":\"after\"}\n"),
	})
	if len(r.Logs) != 1 || len(r.Logs[0].Lines) != 2 || r.Logs[0].Lines[0].Node != "n1" || r.Logs[0].Lines[1].At != 10*time.Second {
		t.Fatalf("%+v", r.Logs)
	}
	if n := len(r.Logs[0].Lines[0].Text); n > maxLineBytes+5 {
		t.Errorf("a line of %d bytes", n)
	}
}

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
)

// Report is a run as it is shown.
type Report struct {
	Verdict    check.Verdict     `json:"verdict"`
	Why        string            `json:"why,omitempty"` // of a verdict that is not known
	Failed     string            `json:"failed,omitempty"`
	Settings   history.Settings  `json:"settings"`
	Took       time.Duration     `json:"took"` // until the last event
	Counts     check.Counts      `json:"counts"`
	Guarantees []check.Guarantee `json:"guarantees"` // findings up to MaxFindings each, see Breaches
	Breaches   map[string]int    `json:"breaches"`   // of each guarantee, all that there are
	Kinds      []Kind            `json:"kinds"`
	Recoveries []check.Recovery  `json:"recoveries"`
	Workloads  []Workload        `json:"workloads"`
	Clients    []Client          `json:"clients"`
	Series     Series            `json:"series"`
	Leaders    []Band            `json:"leaders"` // in order of Queue and From
	Logs       []Excerpt         `json:"logs,omitempty"`
	Resources  []Resource        `json:"resources,omitempty"`
}

// MaxFindings bounds the findings of each guarantee that a report lists; it counts them all.
const MaxFindings = 50

// Kind is what the faults of one kind did.
type Kind struct {
	Name, Class string
	Faults      int
	// Felt are those that were shown to have been felt, Unfelt those that were looked for in vain;
	// of the others the putting in is proof enough.
	Felt, Unfelt int
	// P50 and P99 are times to the first confirm of a message that was published after the fault;
	// negative: never.
	P50, P99 time.Duration
	Clients  []Worst // by class
}

// Worst is how long the publishers of a class of clients paused at worst in the faults of a kind.
type Worst struct {
	Class  string
	Pause  time.Duration
	Limit  time.Duration `json:",omitempty"` // the tightest that was judged; 0: none
	Beyond bool          `json:",omitempty"` // one limit was not kept
}

// Workload is what a workload's clients did.
type Workload struct {
	history.Workload
	Queues                                                         int
	Published, Confirmed, Refused, Unknown, Delivered, Redelivered int // of each queue, so some messages count twice
	// Bit is the evidence for what the workload needs, Felt whether it was there; "": it needs nothing.
	Bit  string `json:",omitempty"`
	Felt bool   `json:",omitempty"`
}

// Client is what the clients of a class saw.
type Client struct {
	Class                                            string
	Published, Confirmed, Refused, Unknown, Received int
	P50, P99                                         time.Duration // from publish to confirm
}

// Band is a time in which one node led a queue; an empty node: nobody did, or it is unknown.
type Band struct {
	Queue, Node string
	From, To    time.Duration
}

// Excerpt is what nodes logged around a finding.
type Excerpt struct {
	At        time.Duration
	Guarantee string
	Why       string
	Lines     []Line
	Cut       int `json:",omitempty"` // lines that are left out
}

// Line is one line of a node's log.
type Line struct {
	Node string
	At   time.Duration
	Text string
}

// Resource is what a node used at the beginning and at the end.
type Resource struct {
	Node, Name string
	Begin, End float64
}

// New makes the report of a history. failed is why the run itself failed; nil: it did not.
func New(events []history.Event, found check.Report, failed error) *Report {
	r := &Report{
		Verdict: found.Verdict, Why: found.Why, Counts: found.Counts, Recoveries: found.Recoveries, Breaches: map[string]int{},
	}
	if failed != nil {
		r.Failed = failed.Error()
	}
	if len(events) > 0 {
		r.Took = events[len(events)-1].At
		if events[0].Kind == history.Began && events[0].Settings != nil {
			r.Settings = *events[0].Settings
		}
	}
	for _, g := range found.Guarantees {
		r.Breaches[g.Name] = len(g.Broken)
		g.Broken = g.Broken[:min(len(g.Broken), MaxFindings)]
		r.Guarantees = append(r.Guarantees, g)
	}
	r.Kinds = kinds(found.Recoveries)
	r.Workloads, r.Clients = parties(r.Settings.Workloads, events)
	r.Series = series(events, r.Took)
	r.Leaders = bands(events, r.Took)
	r.Resources = used(events)
	return r
}

// JSON writes the report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// kindOf returns the name of a fault's kind.
func kindOf(f *history.Event) string {
	name, _, _ := strings.Cut(f.Note, " of ")
	return name
}

// kinds sums faults up, in order of their kinds' names.
func kinds(of []check.Recovery) []Kind {
	all := map[string]*Kind{}
	confirms := map[string][]time.Duration{}
	for i := range of {
		x := &of[i]
		name := kindOf(&x.Fault)
		k := all[name]
		if k == nil {
			k = &Kind{Name: name, Class: x.Fault.Class}
			all[name] = k
		}
		k.Faults++
		switch {
		case x.Felt:
			k.Felt++
		case x.Bit != "":
			k.Unfelt++
		}
		if x.Confirm >= 0 {
			confirms[name] = append(confirms[name], x.Confirm)
		}
		for _, c := range x.Clients {
			k.add(c)
		}
	}
	out := make([]Kind, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		k := all[name]
		slices.Sort(confirms[name])
		k.P50, k.P99 = quantile(confirms[name], 50), quantile(confirms[name], 99)
		out = append(out, *k)
	}
	return out
}

// add takes one class of clients in.
func (k *Kind) add(c check.ClientRecovery) {
	i := slices.IndexFunc(k.Clients, func(w Worst) bool { return w.Class == c.Class })
	if i < 0 {
		i = len(k.Clients)
		k.Clients = append(k.Clients, Worst{Class: c.Class})
	}
	w := &k.Clients[i]
	w.Pause = max(w.Pause, c.Pause)
	if c.Limit > 0 && !c.Healed && (w.Limit == 0 || c.Limit < w.Limit) {
		w.Limit = c.Limit
	}
	w.Beyond = w.Beyond || c.Limit > 0 && (!c.Healed && c.Pause > c.Limit || c.Healed && (c.After < 0 || c.After > c.Limit))
}

// quantile returns one of sorted times; negative: there are none.
func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return -1
	}
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

// parties counts what workloads and classes of clients did.
func parties(of []history.Workload, events []history.Event) ([]Workload, []Client) {
	loads := make([]Workload, len(of))
	for i, w := range of {
		loads[i].Workload = w
	}
	load := func(queue string) *Workload {
		for i := range loads {
			if strings.HasPrefix(queue, loads[i].Prefix+".") {
				return &loads[i]
			}
		}
		return &Workload{}
	}
	clients, waits := map[string]*Client{}, map[string][]time.Duration{}
	targets := map[history.Message][]string{}
	for i := range events {
		e := &events[i]
		c := clients[e.Client]
		if c == nil && e.Client != "" {
			c = &Client{Class: e.Client}
			clients[e.Client] = c
		}
		if c == nil {
			c = &Client{}
		}
		answered := func(one func(*Workload) *int) {
			for _, q := range targets[e.Message()] {
				*one(load(q))++
			}
			delete(targets, e.Message())
		}
		switch e.Kind {
		case history.Declared:
			load(e.Queue).Queues++
		case history.Bit:
			if w := load(e.Queue + "."); e.Fault == 0 {
				w.Bit, w.Felt = e.Note, e.Again
			}
		case history.Published:
			c.Published++
			targets[e.Message()] = e.Queues
			for _, q := range e.Queues {
				load(q).Published++
			}
		case history.Confirmed:
			c.Confirmed++
			waits[e.Client] = append(waits[e.Client], e.At-e.Sent)
			answered(func(w *Workload) *int { return &w.Confirmed })
		case history.Refused:
			c.Refused++
			answered(func(w *Workload) *int { return &w.Refused })
		case history.Unknown:
			c.Unknown++
			answered(func(w *Workload) *int { return &w.Unknown })
		case history.Delivered:
			c.Received++
			w := load(e.Queue)
			if w.Delivered++; e.Acquired > 0 {
				w.Redelivered++
			}
		default:
		}
	}
	var out []Client
	for _, class := range slices.Sorted(maps.Keys(clients)) {
		c := clients[class]
		slices.Sort(waits[class])
		c.P50, c.P99 = quantile(waits[class], 50), quantile(waits[class], 99)
		out = append(out, *c)
	}
	return loads, out
}

// used returns what nodes used at first, or as soon as their caches were full, and at the end.
func used(events []history.Event) []Resource {
	var out []Resource
	begin := map[string]map[string]float64{}
	for i := range events {
		e := &events[i]
		if e.Kind != history.Resources {
			continue
		}
		if begin[e.Node] == nil || e.Note == history.Warm {
			begin[e.Node] = e.Figures
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(e.Figures)) {
			out = append(out, Resource{e.Node, name, begin[e.Node][name], e.Figures[name]})
		}
	}
	slices.SortStableFunc(out, func(a, b Resource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

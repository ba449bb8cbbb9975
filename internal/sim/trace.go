package sim

import (
	"fmt"
	"strings"
)

// traceLen is how many events are kept for a report.
const traceLen = 60

// event is what happened; it is turned into text only for a report.
type event struct {
	step int
	now  int64
	what string
	args [4]int64
	n    int
}

// trace hashes all that happens (FNV-1a) and keeps the last events.
type trace struct {
	sum  uint64
	ring [traceLen]event
	next int
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// bytes adds bytes to the hash alone.
func (t *trace) bytes(b []byte) {
	h := t.sum
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	t.sum = h
}

// text adds s to the sum by which two runs of a seed are compared.
func (t *trace) text(s string) {
	h := t.sum
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	t.sum = h
}

// add adds an event; what names its args, as "commit queue index".
func (w *world) event(what string, args ...int64) {
	t := &w.trace
	e := &t.ring[t.next%traceLen]
	t.next++
	e.step, e.now, e.what, e.n = w.result.Steps, w.now, what, copy(e.args[:], args)
	t.text(what)
	h := (t.sum ^ uint64(w.now)) * fnvPrime
	for _, a := range args {
		h = (h ^ uint64(a)) * fnvPrime
	}
	t.sum = h
}

func (e *event) String() string {
	words := strings.Fields(e.what)
	var b strings.Builder
	fmt.Fprintf(&b, "step %d, %d ms: %s", e.step, e.now-startMs, words[0])
	for i := range e.n {
		name := ""
		if i+1 < len(words) {
			name = words[i+1] + "="
		}
		fmt.Fprintf(&b, " %s%d", name, e.args[i])
	}
	return b.String()
}

// last returns the newest events, the oldest of them first.
func (t *trace) last() []string {
	var out []string
	for i := max(0, t.next-traceLen); i < t.next; i++ {
		out = append(out, t.ring[i%traceLen].String())
	}
	return out
}

// broke stops the run: the rule does not hold.
func (w *world) broke(rule, format string, args ...any) {
	if w.broken != nil {
		return
	}
	w.broken = &Violation{Config: w.cfg, Rule: rule, Text: fmt.Sprintf(format, args...), Events: w.trace.last()}
}

package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// maxStory bounds the lines of a story: the first ones, which show how it began, stay.
const maxStory = 40

// recount gives the first breaches of a guarantee their stories: the history itself is often out of reach where a report is
// read.
func (l *ledger) recount(g *Guarantee) {
	for i := range g.Broken[:min(examples, len(g.Broken))] {
		if f := &g.Broken[i]; f.Message.Publisher > 0 {
			f.Story = l.story(f.Message)
		}
	}
}

// story is what a history has of a message in all queues, a line for each event, and when the consumers that had it were
// lost, in the order in which it was recorded.
func (l *ledger) story(m history.Message) []string {
	var lines []string
	var had []string // consumers
	for i := range l.events {
		switch e := &l.events[i]; {
		case e.Message() == m && e.Publisher > 0:
			lines = append(lines, e.At.Round(time.Millisecond).String()+" "+sentence(e))
			if e.Kind == history.Delivered && !slices.Contains(had, e.Consumer) {
				had = append(had, e.Consumer)
			}
		case e.Kind == history.Lost && slices.Contains(had, e.Consumer):
			lines = append(lines, fmt.Sprintf("%v %s is lost", e.At.Round(time.Millisecond), e.Consumer))
		}
	}
	if more := len(lines) - maxStory; more > 0 {
		lines = append(lines[:maxStory], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// sentence says what an event of a message was.
func sentence(e *history.Event) string {
	parts := []string{string(e.Kind)}
	add := func(is bool, format string, a ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, a...))
		}
	}
	add(e.Outcome != "", "%s", e.Outcome)
	add(e.Queue != "", "in %s", e.Queue)
	add(len(e.Queues) > 0, "to %s", strings.Join(e.Queues, ", "))
	add(e.Consumer != "", "by %s", e.Consumer)
	add(e.Client != "", "(%s)", e.Client)
	add(e.Kind == history.Delivered, "after %d deliveries and %d failures", e.Acquired, e.Count)
	for _, d := range e.Deaths {
		add(true, "%s %d times in %s", d.Reason, d.Count, d.Queue)
	}
	add(e.Resend, "again")
	add(e.Note != "", "%s", e.Note)
	return strings.Join(parts, " ")
}

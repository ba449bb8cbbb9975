package quorumq

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Messages that come after the first page was read are not in the other pages.
func TestPeekEnds(t *testing.T) {
	q := New(1024, DefaultConfig())
	index := uint64(0)
	apply := func(c Command) Reply {
		index++
		r, _ := q.Apply(Meta{Index: index, Now: 1}, c)
		return r
	}
	node := EnqueuerKey{Node: "n", Epoch: 1}
	one := []NewMessage{{Size: 1, TTLMs: Unlimited, Priority: DefaultPriority}}
	session := SessionKey{Node: "n", Epoch: 1, Session: 1}
	requeue := func() {
		d := apply(&Get{Session: session}).Delivery
		apply(&Requeue{Consumer: d.Consumer, Ranges: []MsgIDRange{{d.MsgID, d.MsgID}}})
	}
	for i := range 10 {
		apply(&Enqueue{Enqueuer: node, First: Seq(i + 1), Messages: one})
	}
	requeue()
	page, from, more := q.Peek(nil, PeekFrom{}, 1)
	if len(page) != 1 || !more {
		t.Fatalf("%d messages, more %t", len(page), more)
	}
	shown := 1
	for i := 0; more; i++ {
		if i > 100 {
			t.Fatal("the pages have no end")
		}
		apply(&Enqueue{Enqueuer: node, First: Seq(i + 11), Messages: one})
		requeue()
		page, from, more = q.Peek(page[:0], from, 1)
		shown += len(page)
	}
	if shown != 10 {
		t.Errorf("%d messages were shown, there were 10", shown)
	}
}

// peekAll returns all pages of what from asks for.
func peekAll(q *Queue, from PeekFrom, page int) []Peeked {
	var all []Peeked
	for more := true; more; {
		n := len(all)
		if all, from, more = q.Peek(all, from, page); len(all)-n > page {
			panic(fmt.Sprintf("a page of %d holds %d", page, len(all)-n))
		}
		if len(all)-n > 1 { // a page that ends after its first message
			all = all[:n+1]
			from, more = from.After(&all[n]), true
		}
	}
	return all
}

func formatPeeked(ps []Peeked) string {
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintf(&b, "peek #%d", p.Number)
		if p.Place.Return > 0 {
			fmt.Fprintf(&b, " returned %d", p.Place.Return)
		}
		if p.Place.Order > 0 && p.Priority != DefaultPriority {
			fmt.Fprintf(&b, " level %d", p.Priority)
		}
		fmt.Fprintf(&b, " body %s (%d bytes) at %d", ref(p.Body), p.Size, p.At)
		if p.Expires > 0 {
			fmt.Fprintf(&b, " until %d", p.Expires)
		}
		if p.Due > 0 {
			fmt.Fprintf(&b, " due %d", p.Due)
		}
		if p.Consumer.Node != "" {
			b.WriteString(" with " + consumerName(p.Consumer))
		}
		switch {
		case p.To != nil:
			b.WriteString(" moved to " + formatDestination(*p.To))
		case p.Reason != 0:
			b.WriteString(" " + p.Reason.String())
		}
		if p.Annotations != (BodyRef{}) {
			b.WriteString(" annotated " + ref(p.Annotations))
		}
		if p.AcquiredCount > 0 {
			fmt.Fprintf(&b, " acquired %d failed %d", p.AcquiredCount, p.DeliveryCount)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func formatDestination(d Destination) string {
	s := d.Kind.String()
	if d.Name != "" {
		s += " " + d.Name
	}
	if d.HasKey {
		s += fmt.Sprintf(" key %q", d.Key)
	}
	return s
}

func partArg(d *datadriven.TestData) Part {
	return map[string]Part{"ready": PartReady, "unsettled": PartUnsettled, "backlog": PartBacklog, "delayed": PartDelayed}[textArg(d, "part", "ready")]
}

// moveArg reads to=exchange name=x key=k places=(7,8.4,9r2). A place is a number, followed by its
// level if that is not the default, and by the number of its return if it has one.
func moveArg(d *datadriven.TestData) *Move {
	c := &Move{To: Destination{Name: textArg(d, "name", ""), Key: textArg(d, "key", ""), HasKey: d.HasArg("key")}}
	c.To.Kind = map[string]DestinationKind{
		"nowhere": ToNowhere, "queue": ToQueue, "exchange": ToExchange, "origin": ToOrigin, "origin-exchange": ToOriginExchange,
	}[textArg(d, "to", "nowhere")]
	for _, a := range d.CmdArgs {
		if a.Key != "places" {
			continue
		}
		for _, v := range a.Vals {
			var p Place
			v, returned, _ := strings.Cut(v, "r")
			number, level, has := strings.Cut(v, ".")
			n, _ := strconv.ParseUint(number, 10, 64)
			p.Order = n<<ordBits | uint64(DefaultPriority)
			if has {
				l, _ := strconv.ParseUint(level, 10, 64)
				p.Order = n<<ordBits | l
			}
			p.Return, _ = strconv.ParseUint(returned, 10, 64)
			c.Places = append(c.Places, p)
		}
	}
	return c
}

func (m *mMessage) peeked(q *model) Peeked {
	return Peeked{
		Place: Place{Order: uint64(m.ord<<5 | m.level)}, Number: uint64(m.ord), Priority: uint8(m.level), Body: m.body,
		Annotations: m.notes, Size: m.size, At: m.at, Expires: q.expiryOf(m), DeliveryCount: m.fails, AcquiredCount: m.acquired,
	}
}

func (q *model) peekReady() (all []Peeked) {
	for _, m := range q.back {
		p := m.peeked(q)
		p.Place.Return = m.number
		all = append(all, p)
	}
	levels := slices.Clone(q.ready)
	slices.SortStableFunc(levels, func(a, b *mMessage) int { return cmp.Compare(b.level, a.level) })
	for _, m := range levels {
		all = append(all, m.peeked(q))
	}
	return all
}

func (q *model) peekUnsettled() (all []Peeked) {
	type one struct {
		c *mConsumer
		h mHeld
	}
	var held []one
	for _, c := range q.consumers {
		for _, h := range c.held {
			held = append(held, one{c, h})
		}
	}
	slices.SortFunc(held, func(a, b one) int { return cmp.Compare(a.h.turn, b.h.turn) })
	for _, x := range held {
		p := x.h.m.peeked(q)
		p.Expires, p.Consumer = 0, x.c.Consumer
		all = append(all, p)
	}
	return all
}

func (q *model) peekBacklog() (all []Peeked) {
	for _, d := range q.backlog {
		all = append(all, Peeked{
			Number: uint64(d.Seq), Body: d.Body, Annotations: d.Annotations, Size: q.sizes[d.Body], At: d.At,
			DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount, Reason: d.Reason, To: d.To,
		})
	}
	return all
}

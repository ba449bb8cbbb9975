package session

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/quorumq"
)

func newConsumer(n quorumq.MsgID) *Consumer {
	c := NewConsumer(quorumq.ConsumerKey{Tag: 1}, 0)
	for id := quorumq.MsgID(1); id <= n; id++ {
		c.Deliver(quorumq.Delivery{MsgID: id}, false)
	}
	return c
}

func r(first, last quorumq.MsgID) quorumq.MsgIDRange {
	return quorumq.MsgIDRange{First: first, Last: last}
}

// commands takes all commands and writes them as text.
func commands(c *Consumer) []string {
	var all []string
	for {
		cmd, number, body, ok := c.Next()
		if !ok {
			return all
		}
		text := fmt.Sprintf("%d", number)
		var ranges []quorumq.MsgIDRange
		switch cmd := cmd.(type) {
		case *quorumq.Settle:
			text, ranges = text+" settle", cmd.Ranges
		case *quorumq.Requeue:
			text, ranges = fmt.Sprintf("%s return failed=%t", text, cmd.Failed), cmd.Ranges
		case *quorumq.Discard:
			text, ranges = fmt.Sprintf("%s discard failed=%t", text, cmd.Failed), cmd.Ranges
		}
		for _, r := range ranges {
			text += fmt.Sprintf(" %d-%d", r.First, r.Last)
		}
		if body != nil {
			text += " " + string(body)
		}
		all = append(all, text)
	}
}

func want(t *testing.T, c *Consumer, lines ...string) {
	t.Helper()
	if got := commands(c); !slices.Equal(got, lines) {
		t.Fatalf("commands\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

func TestConsumerDeliveries(t *testing.T) {
	c := NewConsumer(quorumq.ConsumerKey{Tag: 1}, 10)
	for _, step := range []struct {
		id   quorumq.MsgID
		want Verdict
	}{{10, Repeat}, {11, New}, {11, Repeat}, {13, Missing}, {12, New}, {14, Missing}, {1, Repeat}} {
		if got := c.Deliver(quorumq.Delivery{MsgID: step.id}, false); got != step.want {
			t.Errorf("id %d: verdict %d, want %d", step.id, got, step.want)
		}
	}
	if !c.NeedsResume() || c.Last() != 12 {
		t.Errorf("resume %t after %d", c.NeedsResume(), c.Last())
	}
	var got []quorumq.MsgID
	deliver := func(d quorumq.Delivery) { got = append(got, d.MsgID) }
	c.Resumed([]quorumq.Delivery{{MsgID: 12}, {MsgID: 13}, {MsgID: 16}}, 18, deliver)
	if want := []quorumq.MsgID{13, 16}; !reflect.DeepEqual(got, want) || c.Last() != 18 || c.NeedsResume() {
		t.Errorf("resumed with %v, last %d", got, c.Last())
	}
	if c.Unsettled() != 4 {
		t.Errorf("%d unsettled", c.Unsettled())
	}
	if c.Assign(quorumq.Delivery{MsgID: 18}, false) || !c.Assign(quorumq.Delivery{MsgID: 25}, true) || c.Unsettled() != 4 {
		t.Error("get is judged wrongly")
	}
}

// DEL-6: only unsettled messages can be decided about. DEL-1, DL-11: the client chooses the order.
func TestConsumerOutcomes(t *testing.T) {
	c := newConsumer(20)
	if n := c.Settle(r(3, 5)); n != 3 {
		t.Errorf("%d settled", n)
	}
	if n := c.Settle(r(1, 6)); n != 3 {
		t.Errorf("%d settled", n)
	}
	if n := c.Settle(r(1, 6)) + c.Settle(r(40, 50)); n != 0 {
		t.Errorf("%d settled", n)
	}
	c.Requeue(r(9, 9), false, nil, quorumq.Delay{})
	c.Requeue(r(7, 7), false, nil, quorumq.Delay{}) // lower: its own command keeps the order
	c.Requeue(r(8, 8), false, nil, quorumq.Delay{})
	c.Requeue(r(10, 10), true, nil, quorumq.Delay{})
	c.Discard(r(13, 13), false, nil)
	c.Discard(r(11, 12), false, nil) // any order in one command
	c.Discard(r(14, 14), false, []byte("x"))
	c.Discard(r(15, 15), false, nil)
	lines := []string{
		"0 settle 3-5 1-2 6-6",
		"1 return failed=false 9-9",
		"2 return failed=false 7-8",
		"3 return failed=true 10-10",
		"4 discard failed=false 13-13 11-12",
		"5 discard failed=false 14-14 x",
		"6 discard failed=false 15-15",
	}
	want(t, c, lines...)
	want(t, c)
	if n := c.Deciding(); n != 15 {
		t.Errorf("%d are being decided, want 15", n)
	}
	// A command that was sent never changes. One without an answer is sent again, in order.
	c.Discard(r(16, 16), false, nil)
	c.Answer(1, quorumq.Reply{})
	c.Answer(1, quorumq.Reply{})
	c.Answer(99, quorumq.Reply{})
	c.Rewind()
	c.Discard(r(17, 17), false, nil)
	want(t, c, append([]string{lines[0]}, append(lines[2:], "7 discard failed=false 16-17")...)...)
	c.Answer(0, quorumq.Reply{})
	for number := uint64(2); number < 8; number++ {
		c.Answer(number, quorumq.Reply{})
	}
	if c.Unanswered() != 0 || c.Deciding() != 0 || c.Unsettled() != 3 {
		t.Errorf("%d unanswered of %d, %d unsettled", c.Unanswered(), c.Deciding(), c.Unsettled())
	}
	c.Settle(r(1, 100))
	want(t, c, "8 settle 18-20")
}

// G4: a decision counts as committed once the queue has answered for it and for all before it, and
// not when it is made or sent.
func TestConsumerCommitted(t *testing.T) {
	c := newConsumer(3)
	c.Settle(r(1, 1))
	c.Discard(r(2, 2), false, nil)
	committed := func(when string, want uint64) {
		t.Helper()
		if got := c.Committed(); got != want {
			t.Errorf("%s: committed up to %d, want %d", when, got, want)
		}
	}
	if c.Decided() != 2 {
		t.Errorf("decided up to %d, want 2", c.Decided())
	}
	committed("decided", 0)
	want(t, c, "0 settle 1-1", "1 discard failed=false 2-2")
	committed("sent", 0)
	c.Answer(1, quorumq.Reply{})
	committed("the second answered", 0)
	c.Rewind()
	committed("the leader is lost", 0)
	c.Answer(0, quorumq.Reply{})
	committed("both answered", 2)
	c.Settle(r(3, 3))
	committed("one more decided", 2)
}

// G4: a decision that the queue did not take never counts as committed.
func TestConsumerGone(t *testing.T) {
	c := newConsumer(3)
	c.Settle(r(1, 1))
	want(t, c, "0 settle 1-1")
	c.Answer(0, quorumq.Reply{Code: quorumq.CodeUnknownConsumer})
	c.Answer(0, quorumq.Reply{})
	if c.Committed() != 0 || c.Decided() != 1 {
		t.Errorf("committed up to %d, decided up to %d", c.Committed(), c.Decided())
	}
	c.Settle(r(2, 2))
	c.Rewind()
	want(t, c)
	if !c.Gone() || c.Unsettled() != 0 || c.Deciding() != 0 || c.NeedsResume() {
		t.Errorf("gone %t, %d unsettled", c.Gone(), c.Unsettled())
	}
}

func TestConsumerCommandsAreBounded(t *testing.T) {
	c := newConsumer(2*maxRanges + 2)
	for id := quorumq.MsgID(1); id <= 2*maxRanges+2; id += 2 {
		c.Settle(r(id, id))
	}
	cmd, _, _, _ := c.Next()
	if s, ok := cmd.(*quorumq.Settle); !ok || len(s.Ranges) != maxRanges {
		t.Errorf("%d ranges in one command", len(s.Ranges))
	}
}

// BenchmarkConsumer receives deliveries, settles each by itself, and sends the commands that
// result, 64 at a time.
func BenchmarkConsumer(b *testing.B) {
	c := NewConsumer(quorumq.ConsumerKey{Tag: 1}, 0)
	id := quorumq.MsgID(0)
	b.ReportAllocs()
	for n := 0; n < b.N; n += 64 {
		for range 64 {
			id++
			c.Deliver(quorumq.Delivery{MsgID: id}, false)
		}
		for m := id - 63; m <= id; m++ {
			c.Settle(r(m, m))
		}
		for {
			_, number, _, ok := c.Next()
			if !ok {
				break
			}
			c.Answer(number, quorumq.Reply{})
		}
	}
}

// CT-2: if a delivery times out on its way to the client, the queue waits for an answer about it
// just as for a delivery that the client has. Only the gateway can answer for it.
func TestConsumerAnswersForWhatItNeverHanded(t *testing.T) {
	for _, tc := range []struct {
		name    string
		autoAck bool
		held    []quorumq.MsgID
		last    quorumq.MsgID
		want    []string
	}{
		{name: "all held", held: []quorumq.MsgID{3, 4}, last: 4},
		{name: "none held", last: 5, want: []string{"0 return failed=false 3-5"}},
		{name: "gaps", held: []quorumq.MsgID{4, 7}, last: 9, want: []string{"0 return failed=false 3-3 5-6 8-9"}},
		{name: "nothing missed", last: 2},
		{name: "an answer of the past", last: 1},
		{name: "auto-ack", autoAck: true, last: 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewConsumer(quorumq.ConsumerKey{Tag: 1}, 1)
			c.Deliver(quorumq.Delivery{MsgID: 2}, tc.autoAck)
			c.Rewind()
			var held []quorumq.Delivery
			for _, m := range tc.held {
				held = append(held, quorumq.Delivery{MsgID: m})
			}
			c.Resumed(held, tc.last, func(quorumq.Delivery) {})
			want(t, c, tc.want...)
			if c.Last() != max(tc.last, 2) {
				t.Errorf("last is %d", c.Last())
			}
		})
	}
}

// CT-2: a decision about messages that the queue has taken back had no effect. What was skipped is no decision, and of
// what was sent before an earlier attempt may have had the effect.
func TestConsumerVoid(t *testing.T) {
	notHeld := quorumq.Reply{Code: quorumq.CodeNotHeld}
	for name, row := range map[string]struct {
		decide  func(c *Consumer)
		rewinds bool
		reply   quorumq.Reply
		want    uint64
	}{
		"carried out":         {decide: func(c *Consumer) { c.Settle(r(1, 3)) }},
		"settled too late":    {decide: func(c *Consumer) { c.Settle(r(1, 3)) }, reply: notHeld, want: 1},
		"returned too late":   {decide: func(c *Consumer) { c.Requeue(r(1, 1), false, nil, quorumq.Delay{}) }, reply: notHeld, want: 1},
		"discarded too late":  {decide: func(c *Consumer) { c.Discard(r(2, 2), false, nil) }, reply: notHeld, want: 1},
		"sent again":          {decide: func(c *Consumer) { c.Settle(r(1, 3)) }, rewinds: true, reply: notHeld},
		"sent again, refused": {decide: func(c *Consumer) { c.Settle(r(1, 3)) }, rewinds: true, reply: quorumq.Reply{Code: quorumq.CodeMalformed}, want: 1},
		"skipped":             {decide: func(c *Consumer) { c.Resumed(nil, 5, nil) }, reply: notHeld},
		"returned, then skipped": {decide: func(c *Consumer) {
			c.Requeue(r(3, 3), false, nil, quorumq.Delay{})
			c.Resumed(nil, 5, nil)
		}, reply: notHeld, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsumer(3)
			row.decide(c)
			if n := len(commands(c)); n != 1 {
				t.Fatalf("%d commands, want 1", n)
			}
			if row.rewinds {
				c.Rewind()
				commands(c)
			}
			for range 2 { // the second answer is a repeat
				c.Answer(0, row.reply)
				if n := c.Void(); n != row.want {
					t.Errorf("%d commands in vain, want %d", n, row.want)
				}
			}
		})
	}
}

package quorumq

import (
	"fmt"
	"slices"
	"strings"
)

var codeNames = [...]string{"ok", "gap", "fenced", "unknown consumer", "exclusive", "malformed", "single active", "too many", "not held", "drain-deleting"}

// answer writes a reply and its effects as text.
func answer(r Reply, e Effects) string {
	var b strings.Builder
	b.WriteString(codeNames[r.Code])
	if r.Code == CodeGap {
		fmt.Fprintf(&b, " next %d", r.Next)
	}
	if r.Stored > 0 {
		fmt.Fprintf(&b, " stored %d", r.Stored)
	}
	if len(r.Refused) > 0 {
		fmt.Fprintf(&b, " refused %v", r.Refused)
	}
	if r.Count > 0 {
		fmt.Fprintf(&b, " count %d", r.Count)
	}
	if r.Left > 0 {
		fmt.Fprintf(&b, " left %d", r.Left)
	}
	if r.LastMsgID > 0 {
		fmt.Fprintf(&b, " last id %d", r.LastMsgID)
	}
	b.WriteString("\n")
	if r.Delivery != nil {
		b.WriteString("got " + formatDelivery(*r.Delivery))
	}
	if len(e.Deliver) > 100 {
		fmt.Fprintf(&b, "deliver %d messages, ids %d to %d\n", len(e.Deliver), e.Deliver[0].MsgID, e.Deliver[len(e.Deliver)-1].MsgID)
	} else {
		b.WriteString(formatLines("deliver ", e.Deliver))
	}
	for _, n := range e.Notices {
		fmt.Fprintf(&b, "notice %s %s\n", consumerName(n.Consumer), [...]string{"", "cancelled", "leader", "active", "waiting", "revoked"}[n.Kind])
		if n.Messages.Last > 0 {
			fmt.Fprintf(&b, "  messages %d-%d\n", n.Messages.First, n.Messages.Last)
		}
	}
	for _, d := range e.Copies {
		b.WriteString(formatDiscarded("copy", d))
	}
	if e.Backlog {
		b.WriteString("backlog has news\n")
	}
	if e.Unused {
		b.WriteString("unused\n")
	}
	if e.Timer != 0 {
		fmt.Fprintf(&b, "timer %d\n", e.Timer)
	}
	if len(e.Release) > 100 {
		fmt.Fprintf(&b, "release %d bodies\n", len(e.Release))
	} else if len(e.Release) > 0 {
		b.WriteString("release")
		for _, r := range e.Release {
			b.WriteString(" " + ref(r))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func ref(r BodyRef) string { return fmt.Sprintf("%d.%d", r.Index, r.Slot) }

func consumerName(k ConsumerKey) string {
	return fmt.Sprintf("%s.%d.%d:%d", k.Node, k.Epoch, k.Session, k.Tag)
}

func formatDelivery(d Delivery) string {
	s := fmt.Sprintf("%s #%d body %s", consumerName(d.Consumer), d.MsgID, ref(d.Body))
	if d.Annotations != (BodyRef{}) {
		s += " annotated " + ref(d.Annotations)
	}
	if d.AcquiredCount > 0 {
		s += fmt.Sprintf(" acquired %d", d.AcquiredCount)
	}
	if d.DeliveryCount > 0 {
		s += fmt.Sprintf(" failed %d", d.DeliveryCount)
	}
	return s + "\n"
}

func formatLines(word string, ds []Delivery) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(word + formatDelivery(d))
	}
	return b.String()
}

func formatDiscarded(word string, d Discarded) string {
	s := word
	if d.Seq > 0 {
		s += fmt.Sprintf(" %d", d.Seq)
	}
	why := d.Reason.String()
	if d.To != nil {
		why = "moved to " + formatDestination(*d.To)
	}
	s += fmt.Sprintf(" body %s %s at %d", ref(d.Body), why, d.At)
	if d.Annotations != (BodyRef{}) {
		s += " annotated " + ref(d.Annotations)
	}
	if d.AcquiredCount > 0 {
		s += fmt.Sprintf(" acquired %d", d.AcquiredCount)
	}
	if d.DeliveryCount > 0 {
		s += fmt.Sprintf(" failed %d", d.DeliveryCount)
	}
	return s + "\n"
}

// show writes the state as its users see it.
func show(q *Queue) string {
	var b strings.Builder
	o := q.Overview()
	fmt.Fprintf(&b, "now %d\n", o.Now)
	fmt.Fprintf(&b, "ready %d (%d bytes)", o.Ready, o.ReadyBytes)
	if o.Returned > 0 {
		fmt.Fprintf(&b, ", returned %d", o.Returned)
	}
	fmt.Fprintf(&b, ", unsettled %d (%d bytes), backlog %d (%d bytes)\n", o.Unsettled, o.UnsettledBytes, o.Backlog, o.BacklogBytes)
	if o.Delayed > 0 {
		fmt.Fprintf(&b, "delayed %d (%d bytes), next at %d\n", o.Delayed, o.DelayedBytes, o.NextDelayed)
	}
	for l, n := range slices.Backward(o.ReadyByPriority[:]) {
		if n > 0 && uint8(l) != DefaultPriority {
			fmt.Fprintf(&b, "level %d: %d\n", l, n)
		}
	}
	if o.Full {
		b.WriteString("full\n")
	}
	if o.OldestReady > 0 {
		fmt.Fprintf(&b, "oldest ready since %d\n", o.OldestReady)
	}
	fmt.Fprintf(&b, "consumers %d, sessions %d, enqueuers %d\n", o.Consumers, o.Sessions, o.Enqueuers)
	for _, c := range []struct {
		name  string
		count uint64
	}{
		{"enqueued", o.Enqueued},
		{"refused", o.Refused},
		{"settled", o.Settled},
		{"expired", o.Expired},
		{"dropped", o.Dropped},
		{"delivered", o.Delivered},
		{"redelivered", o.Redelivered},
		{"returned", o.ReturnedTotal},
		{"delivery limit hits", o.DeliveryLimitHits},
		{"dedup", o.Dedup},
		{"confirmed", o.Confirmed},
		{"repeats", o.Repeats},
		{"moving", o.Moving},
		{"moved", o.Moved},
		{"removed", o.Removed},
		{"abandoned", o.Abandoned},
		{"abandoned bytes", o.AbandonedBytes},
	} {
		if c.count > 0 {
			fmt.Fprintf(&b, "%s %d\n", c.name, c.count)
		}
	}
	for r, n := range o.DeadLettered {
		if n > 0 {
			fmt.Fprintf(&b, "dead-lettered %s %d\n", Reason(r), n)
		}
	}
	return b.String()
}

package deadletter

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/tracing"
)

// refusedText is why a full target has not stored a dead letter.
const refusedText = "the target's length limit refuses it"

// forwardSpan is the span of one message in a Transfer.
type forwardSpan struct {
	seq  quorumq.Seq
	span *tracing.Forwarded
}

// traceTransfer begins the spans of the messages that are about to go to a target; nil if none of them is traced.
func (r *forwarding) traceTransfer(n *targetQueue) (spans []forwardSpan) {
	if r.cfg.Tracer == nil {
		return nil
	}
	for _, l := range n.inFlight {
		if l.load.origin != nil {
			spans = append(spans, forwardSpan{l.d.Seq, r.resolver.trace(r.cfg.Tracer, l.load.origin, &l.d, n.uid)})
		}
	}
	return spans
}

// trace begins the span of a message on its way to a target.
func (k *resolver) trace(t *tracing.Tracer, o *tracing.Origin, d *quorumq.Discarded, target id.QueueUID) *tracing.Forwarded {
	if o == nil {
		return nil
	}
	f := tracing.Forward{
		Source: k.src.UID().String(), Target: nameOf(k.view, target), DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
	}
	if k.rec != nil {
		f.VHost, f.Source = k.rec.VHost, k.rec.Name
	}
	if d.To == nil {
		f.Reason, f.Exchange = d.Reason.String(), k.rule.Exchange
	}
	return t.Forward(o, &f)
}

// endTransfer ends the spans of a Transfer with its answer.
func endTransfer(spans []forwardSpan, reply *quorumq.Reply, err error) {
	for _, s := range spans {
		failed := ""
		switch _, refused := slices.BinarySearch(reply.Refused, s.seq); {
		case err != nil:
			failed = err.Error()
		case reply.Code != quorumq.CodeOK:
			failed = fmt.Sprintf("%v: %d", errCode, reply.Code)
		case refused:
			failed = refusedText
		}
		s.span.End(failed)
	}
}

// tracedOf returns the first traced message of those about to be sent, for a log line about all; nil if none is
// traced.
func (n *targetQueue) tracedOf() *tracing.Origin {
	for _, l := range n.inFlight {
		if l.load.origin != nil {
			return l.load.origin
		}
	}
	return nil
}

// nameOf returns the name of a queue, or its UID if the view does not have it.
func nameOf(v *catalog.View, uid id.QueueUID) string {
	if q, ok := v.QueueByUID(uid); ok {
		return q.Name
	}
	return uid.String()
}

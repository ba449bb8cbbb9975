package gateway

import (
	"testing"

	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
)

// Acks wait for more acks only while that delays neither deliveries nor a caller that asks.
func TestPatient(t *testing.T) {
	for _, c := range []struct {
		name               string
		prefetch           uint32
		delivered, acked   int
		ended, flush, want bool
	}{
		{name: "one at a time", prefetch: 1, delivered: 1, acked: 1},
		{name: "few of many", prefetch: 100, delivered: 10, acked: 10, want: true},
		{name: "the client has half", prefetch: 100, delivered: 50, acked: 1},
		{name: "half is acked and not answered", prefetch: 100, delivered: 50, acked: 50},
		{name: "no prefetch", delivered: 100, acked: 1, want: true},
		{name: "somebody waits", prefetch: 100, delivered: 10, acked: 10, flush: true},
		{name: "it has ended", prefetch: 100, delivered: 10, acked: 10, ended: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := Consumer{cfg: ConsumerConfig{Prefetch: c.prefetch}, ended: c.ended, tracker: session.NewConsumer(quorumq.ConsumerKey{}, 0)}
			for i := range c.delivered {
				x.tracker.Deliver(quorumq.Delivery{MsgID: quorumq.MsgID(i + 1)}, false)
			}
			x.tracker.Settle(quorumq.MsgIDRange{First: 1, Last: quorumq.MsgID(c.acked)})
			if c.flush {
				x.flushes = append(x.flushes, flush{})
			}
			if got := x.patient(); got != c.want {
				t.Errorf("patient: %v, want %v", got, c.want)
			}
		})
	}
}

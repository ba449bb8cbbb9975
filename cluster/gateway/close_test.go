package gateway

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// G2: a node that stops does not refuse what may be stored. Only what it never sent is certain not to be, unless a
// producer may have sent it through another node.
func TestCloseLeavesOutcomesOpen(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		answers := map[string]error{}
		publish := func(name string, producer *quorumq.ProducerID) {
			t.Helper()
			m := quorumq.NewMessage{Size: 4, TTLMs: quorumq.Unlimited, Producer: producer, ProducerSeq: 1}
			if err := q.Enqueue(t.Context(), m, []byte("body"), func(err error) { answers[name] = err }); err != nil {
				t.Fatal(err)
			}
		}
		var sent []submitted
		for _, name := range []string{"first", "second", "third", "fourth"} {
			publish(name, nil)
			sent = append(sent, <-l.submitted)
		}
		if len(sent) != maxEnqueuesInFlight {
			t.Fatalf("%d are sent, want as many as may be", len(sent))
		}
		publish("never sent", nil)
		publish("of a producer", &quorumq.ProducerID{1})
		q.post(&op{header: quorumq.AppendCommand(nil, &quorumq.Renew{}), done: func(a opResult) { answers["command"] = a.err }})
		<-l.submitted
		q.g.Close()
		for name, want := range map[string]error{
			"first": traffic.ErrUnknownOutcome, "fourth": traffic.ErrUnknownOutcome, "of a producer": traffic.ErrUnknownOutcome,
			"command": traffic.ErrUnknownOutcome, "never sent": traffic.ErrClosed,
		} {
			if err := answers[name]; !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		for _, s := range sent { // the queue continues, and stores what was refused
			l.apply(s)
		}
		if n := l.queue.Overview().Ready; n != uint64(len(sent)) {
			t.Errorf("the queue has %d messages, want %d", n, len(sent))
		}
	})
}

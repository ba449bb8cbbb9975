package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// sendsTo publishes messages into a queue, each as soon as quotas allow, and returns how long that
// took.
func sendsTo(t *testing.T, b *Broker, s *Sender, queue string, messages int) time.Duration {
	t.Helper()
	began := time.Now()
	for range messages {
		p := &Publish{VHost: "/", RoutingKey: queue, Sender: s, Message: message.Message{Body: make([]byte, 100)}}
		if err := b.AwaitQuotas(t.Context(), p, nil); err != nil {
			t.Fatal(err)
		}
		b.Publish(t.Context(), p, func(r Result) {
			if r.Kind != Confirmed || r.Queues != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
	return time.Since(began)
}

func lasts(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want*97/100 || got > want*103/100 {
		t.Errorf("%s: took %v, want %v", what, got, want)
	}
}

// VH-15: the rate of a queue holds back every publisher into it, whichever way it publishes; others
// are not held back.
func TestRateOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, _ := loggedInBroker(t, ".*")
		apply(t, c, &catalog.RaiseVersion{Version: catalog.VersionDeclarers})
		apply(t, c, &catalog.DeclareQueue{
			VHost: "/", Name: "rated", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n",
			Arguments: message.Table{{Name: "x-max-message-rate", Value: message.Int64(10)}},
		})
		b.cfg.Authenticate = false
		b.open = func(id.QueueUID) (enqueuer, error) { return discarding{}, nil }
		sender := func() *Sender {
			return &Sender{b: b, gates: b.Limits.NewSender(), enter: func(string) (bool, error) { return true, nil }}
		}
		lasts(t, "on one stream", sendsTo(t, b, sender(), "rated", 101), 10*time.Second)
		began := time.Now()
		for range 100 {
			sendsTo(t, b, sender(), "rated", 1) // as PublishOne does
		}
		lasts(t, "one by one", time.Since(began), 10*time.Second)
		p := &Publish{VHost: "/", RoutingKey: "nix", Sender: sender()}
		p.Headers = message.Table{{Name: "BCC", Value: message.Array(message.String("rated"))}}
		if err := b.AwaitQuotas(t.Context(), p, nil); err != nil {
			t.Error(err)
		}
		if r := publish(t, b, p); r.Queues != 1 {
			t.Errorf("after the wait for quotas, by BCC: %+v", r)
		}
		if d := sendsTo(t, b, sender(), "q", 1000); d != 0 {
			t.Errorf("into another queue: %v", d)
		}
	})
}

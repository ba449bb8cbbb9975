package cases

import (
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

func timeout(d time.Duration) func(*client.ConsumeConfig) {
	return func(c *client.ConsumeConfig) { c.Timeout = d }
}

// CO-1.
func TestT133(t *testing.T) {
	k := begin(t, "a negative consumer timeout is refused")
	q := k.queue("q", nil)
	stream, err := k.broker.Consume(k.ctx)
	k.must(err)
	negative := int64(-1)
	k.must(stream.Send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Open{
		Open: &brokerv1.ConsumeOpen{Queue: q, ConsumerTimeoutMs: &negative},
	}}))
	if _, err := stream.Recv(); err == nil {
		k.Error("the consumer is opened")
	}
}

// CT-2, CT-3, CT-5, CT-6: not before its time, and within a second after it.
func TestT140(t *testing.T) {
	k := begin(t, "a delivery that stays unacked for too long is revoked and returns, not failed")
	q := k.queue("q", nil)
	k.publish(q, "late", "extended")
	began := time.Now()
	s := k.consume(q, 2, timeout(4*time.Second))
	held := k.receive(s, 2)
	k.must(held[1].ExtendAckDeadline(time.Minute))
	within := k.overtaken(1500*time.Millisecond, time.Second)
	k.ready(q, 1)
	if after := time.Since(began); after < 4*time.Second {
		k.Errorf("it is back after %v, want 4 s at least", after)
	}
	m := k.get(q, false)
	k.same("message", string(m.Body), "late")
	k.same("counts", []uint32{m.AcquiredCount, m.DeliveryCount}, []uint32{1, 0})
	k.eventually("the consumer is told", func() error {
		if !held[0].Revoked() {
			return errNotYet
		}
		return nil
	})
	k.same("the other one is revoked", held[1].Revoked(), false)
	k.publish(q, "next")
	k.nothing(s)
	k.must(held[0].Ack()) // too late for the message, but it is an answer
	k.same("then", deliveredBodies(k.receive(s, 1)), []string{"next"})
	k.settle(m, ack)
	k.must(held[1].Ack())
	k.must(s.Flush(k.ctx))
	k.same("left", k.stats(q).Messages, 1)
	k.ready(within, 2)
	k.same("returned, in order", k.bodies(within, 2), []string{"late", "delayed"})
}

// overtaken makes a queue with a delivery that times out and a return that waits for longer by
// within. The queue's own clock decides which is back first, however busy the machine is.
func (k *kase) overtaken(after, within time.Duration) string {
	k.Helper()
	q := k.queue("within", nil)
	k.publish(q, "delayed", "late")
	delayed := k.get(q, false)
	k.receive(k.consume(q, 1, timeout(after)), 1)
	k.settle(delayed, client.Decision{Kind: client.Requeue, Delay: after + within})
	return q
}

// CT-1.
func TestT142(t *testing.T) {
	k := begin(t, "the consumer's timeout counts, else the lower of queue and policy")
	q := k.queue("q", args{"x-consumer-timeout": 60_000})
	k.applied(q, k.policy("p", args{"consumer-timeout": 1500}))
	k.publish(q, "own", "queue's")
	own := k.receive(k.consume(q, 1, timeout(time.Minute)), 1)[0]
	short := k.receive(k.consume(q, 1), 1)[0]
	k.same("returned", string(k.get(q, true).Body), string(short.Body))
	k.same("kept", own.Revoked(), false)
	k.must(own.Ack())
}

// SAC-5.
func timedOutActive(t *testing.T) {
	k := begin(t, "consumers that timed out block no other one")
	q := k.queue("q", args{"x-single-active-consumer": true, "x-consumer-timeout": 500})
	k.publish(q, "m")
	a, b := k.consume(q, 1), k.consume(q, 1)
	late := []*delivery{k.receive(a, 1)[0], k.receive(b, 1)[0]}
	k.eventually("both timed out", func() error {
		if !late[0].Revoked() || !late[1].Revoked() {
			return errNotYet
		}
		return nil
	})
	k.must(late[1].Ack())
	k.must(k.receive(b, 1)[0].Ack())
	k.ready(q, 0)
}

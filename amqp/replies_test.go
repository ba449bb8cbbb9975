package amqp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/watch"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

const replyName = "amq.rabbitmq.reply-to"

// A request on one node is answered on another one, and no client declares a queue for the answer
// (AM-3).
func TestReplies(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	asks, answers := connect(t, c.AMQP(0)), connect(t, c.AMQP(1))
	answers.send(1, &wire.QueueDeclare{Queue: "rpc", Durable: true})
	want[*wire.QueueDeclareOK](answers)
	answers.send(1, &wire.BasicConsume{Queue: "rpc", NoAck: true})
	want[*wire.BasicConsumeOK](answers)
	asks.send(1, &wire.BasicConsume{Queue: replyName, ConsumerTag: "c", NoAck: true})
	want[*wire.BasicConsumeOK](asks)
	testcluster.Poll(t, "the requests' node knows their queue", func() error {
		_, err := c.Broker(0).Queues.Get(all(t), "/", "rpc")
		return err
	})
	address := ""
	for _, text := range []string{"1", "2"} {
		m := message.Message{Properties: message.Properties{ReplyTo: replyName, CorrelationID: text}, Body: []byte("ask " + text)}
		asks.publish("", "rpc", false, m)
		want[*wire.BasicDeliver](answers)
		got, _ := answers.content()
		if !strings.HasPrefix(got.ReplyTo, replyName+".") || got.CorrelationID != text || address != "" && address != got.ReplyTo {
			t.Fatalf("%+v, the address was %q", got, address)
		}
		address = got.ReplyTo
		answers.publish("", address, true, message.Message{Properties: message.Properties{CorrelationID: text}, Body: []byte("answer " + text)})
		if d := want[*wire.BasicDeliver](asks); d.ConsumerTag != "c" || d.Exchange != "" || d.RoutingKey != address {
			t.Errorf("%+v", d)
		}
		if got, body := asks.content(); got.CorrelationID != text || string(body) != "answer "+text {
			t.Errorf("%+v %q", got, body)
		}
	}
	// The one who answers can ask whether anybody still waits. If nobody does, the answer comes
	// back.
	answers.send(1, &wire.QueueDeclare{Queue: address, Passive: true})
	if ok := want[*wire.QueueDeclareOK](answers); ok.Queue != address || ok.ConsumerCount != 1 {
		t.Errorf("%+v", ok)
	}
	asks.send(1, &wire.BasicCancel{ConsumerTag: "c"})
	want[*wire.BasicCancelOK](asks)
	testcluster.Poll(t, "the queue is gone", func() error {
		if c.Broker(1).ReplyExists(t.Context(), "/", address) {
			return errorOf(struct{}{})
		}
		return nil
	})
	answers.publish("", address, true, message.Message{Body: []byte("late")})
	if r := want[*wire.BasicReturn](answers); r.RoutingKey != address {
		t.Errorf("%+v", r)
	}
	answers.content()
	answers.send(1, &wire.QueueDeclare{Queue: address, Passive: true})
	if text := answers.channelClosed(wire.NotFound, wire.QueueDeclareID); text != "NOT_FOUND - no queue '"+address+"' in vhost '/'" {
		t.Error(text)
	}
	// A second consumer gets another address, even after the first has gone. The consumer ends with
	// its connection.
	asks.send(1, &wire.BasicConsume{Queue: replyName, NoAck: true})
	want[*wire.BasicConsumeOK](asks)
	asks.send(1, &wire.BasicConsume{Queue: replyName, NoAck: true})
	if text := asks.channelClosed(wire.PreconditionFailed, wire.BasicConsumeID); text != "PRECONDITION_FAILED - reply consumer already set" {
		t.Error(text)
	}
	testcluster.Poll(t, "no queue but rpc is left", func() error {
		n := 0
		for range c.Cluster(2).View().Queues() {
			n++
		}
		if n != 1 {
			return errorOf(n)
		}
		return nil
	})
}

// AM-3: nobody is shown where answers go, and an address that the requester did not give leads
// nowhere.
func TestRepliesAreSecret(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	testcluster.Poll(t, "the newest version", func() error {
		if v := c.Cluster(0).View().Version(); v < catalog.NewestVersion {
			return errorOf(v)
		}
		return nil
	})
	asks, forges := connect(t, c.AMQP(0)), connect(t, c.AMQP(0))
	asks.send(1, &wire.BasicConsume{Queue: replyName, ConsumerTag: "c", NoAck: true})
	want[*wire.BasicConsumeOK](asks)
	asks.send(1, &wire.QueueDeclare{Queue: "rpc"})
	want[*wire.QueueDeclareOK](asks)
	asks.publish("", "rpc", false, message.Message{Properties: message.Properties{ReplyTo: replyName}})
	asks.send(1, &wire.BasicGet{Queue: "rpc", NoAck: true})
	want[*wire.BasicGetOK](asks)
	request, _ := asks.content()
	address, name := request.ReplyTo, ""
	for q := range c.Cluster(0).View().Queues() {
		if q.Name != "rpc" {
			name = q.Name
		}
	}
	parts := strings.Split(address, ".")
	secret, index := parts[3], parts[4]
	if name == "" || strings.Contains(name, secret) {
		t.Fatalf("queue %q of address %q", name, address)
	}
	list, _, err := c.Broker(0).Queues.Page(all(t), "/", 0, "", true)
	if err != nil || len(list) != 1 || list[0].Name != "rpc" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.Broker(0).Queues.Get(all(t), "/", name); err == nil {
		t.Error("the queue is shown")
	}
	consumers, _, err := c.Broker(0).Connections.Consumers(all(t), "/", "")
	if err != nil || len(consumers) != 1 || consumers[0].Queue != replyName {
		t.Errorf("%+v, %v", consumers, err)
	}
	testHiddenEvents(t, c.Broker(0))
	for _, key := range []string{
		name, replyName + "." + secret, replyName + "." + secret + ".0", replyName + "." + secret + ".x.y",
		replyName + "." + strings.TrimPrefix(name, replyName+":") + "." + index, name + "." + index, replyName + "." + strings.Repeat("A", 26) + "." + index,
	} {
		forges.publish("", key, true, message.Message{Body: []byte("forged")})
		if r := want[*wire.BasicReturn](forges); r.RoutingKey != key {
			t.Errorf("%+v", r)
		}
		forges.content()
	}
	forges.publish("", address, true, message.Message{Body: []byte("true")})
	want[*wire.BasicDeliver](asks)
	if _, body := asks.content(); string(body) != "true" {
		t.Errorf("%q", body)
	}
}

// testHiddenEvents checks that events name the queue rpc, and no queue for answers.
func testHiddenEvents(t *testing.T, b *broker.Broker) {
	t.Helper()
	done := errors.New("enough")
	err := b.Events.Watch(all(t), watch.Choice{VHost: "/", History: true, Kinds: []string{"queue_created"}}, func(events []watch.Event, _ string) error {
		for _, e := range events {
			if e.Name != "rpc" {
				t.Errorf("%+v", e)
			}
		}
		if len(events) > 0 {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Error(err)
	}
}

// The server refuses invalid requests and consumers of answers in RabbitMQ's words.
func TestRefusedReplies(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	for _, x := range []struct {
		name string
		send func(*peer)
		id   wire.MethodID
		text string
	}{
		{
			"with acks", func(p *peer) { p.send(1, &wire.BasicConsume{Queue: replyName}) }, wire.BasicConsumeID,
			"PRECONDITION_FAILED - reply consumer cannot acknowledge",
		},
		{"no consumer", func(p *peer) {
			p.publish("", "q", false, message.Message{Properties: message.Properties{ReplyTo: replyName}})
		}, wire.BasicPublishID, "PRECONDITION_FAILED - fast reply consumer does not exist"},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := connect(t, c.AMQP(0))
			x.send(p)
			if text := p.channelClosed(wire.PreconditionFailed, x.id); text != x.text {
				t.Error(text)
			}
		})
	}
}

package amqp_test

import (
	"strconv"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// wording is a mistake, with the words that RabbitMQ 4.3 has for it.
type wording struct {
	name string
	send func(*peer)
	id   wire.MethodID
	text string
}

// checkWordings makes each mistake on its own connection.
func checkWordings(t *testing.T, connect func(*testing.T) *peer, all []wording) {
	t.Helper()
	for _, x := range all {
		t.Run(x.name, func(t *testing.T) {
			p := connect(t)
			x.send(p)
			code, text, id := p.refused()
			if text != x.text || id != x.id {
				t.Errorf("%d %s of %s\nwant %s of %s", code, text, id, x.text, x.id)
			}
		})
	}
}

// refused reads methods up to a close of the channel or connection, and returns what the close
// names.
func (p *peer) refused() (code uint16, text string, id wire.MethodID) {
	p.t.Helper()
	for {
		switch m := p.method().(type) {
		case *wire.ChannelClose:
			return m.ReplyCode, m.ReplyText, wire.MethodID(uint32(m.ClassID)<<16 | uint32(m.MethodID))
		case *wire.ConnectionClose:
			return m.ReplyCode, m.ReplyText, wire.MethodID(uint32(m.ClassID)<<16 | uint32(m.MethodID))
		}
	}
}

// all sends several methods on channel 1.
func (p *peer) all(ms ...wire.Method) {
	p.t.Helper()
	for _, m := range ms {
		p.send(1, m)
	}
}

// send1 returns a mistake made of one channel's methods; the last of them is at fault.
func send1(name, text string, ms ...wire.Method) wording {
	return wording{name, func(p *peer) { p.all(ms...) }, ms[len(ms)-1].ID(), text}
}

// publishes returns a mistake in a publish that follows other methods.
func publishes(name, text, exchange string, m message.Message, before ...wire.Method) wording {
	return wording{name, func(p *peer) {
		p.all(before...)
		p.publish(exchange, "k", false, m)
	}, wire.BasicPublishID, text}
}

func withExpiration(s string) message.Message {
	return message.Message{Properties: message.Properties{Expiration: s, Has: message.HasExpiration}}
}

const onDefault = "ACCESS_REFUSED - operation not permitted on the default exchange"

// Clients compare the texts of closes, so the texts are RabbitMQ's to the letter (AM-15).
func TestWordings(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	q := &wire.QueueDeclare{Queue: "q", Durable: true}
	x := &wire.ExchangeDeclare{Exchange: "x", Type: "fanout"}
	limited := message.Table{{Name: "x-max-length", Value: message.Int32(5)}}
	all := []wording{
		send1("declare the default exchange", onDefault, &wire.ExchangeDeclare{Type: "direct"}),
		send1("look for the default exchange", onDefault, &wire.ExchangeDeclare{Type: "direct", Passive: true}),
		send1("delete the default exchange", onDefault, &wire.ExchangeDelete{}),
		send1("bind to the default exchange", onDefault, q, &wire.QueueBind{Queue: "q", RoutingKey: "k"}),
		send1("unbind from the default exchange", onDefault, q, &wire.QueueUnbind{Queue: "q", RoutingKey: "k"}),
		send1("bind the default exchange", onDefault, &wire.ExchangeBind{Source: "amq.direct"}),
		send1("bind to the default exchange's", onDefault, &wire.ExchangeBind{Destination: "amq.direct"}),
		send1("reserved exchange", "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'", &wire.ExchangeDeclare{Exchange: "amq.x", Type: "direct"}),
		send1("reserved queue", "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'", &wire.QueueDeclare{Queue: "amq.x", Durable: true}),
		send1("system exchange", "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed", &wire.ExchangeDelete{Exchange: "amq.direct"}),
		send1("no such system exchange", "ACCESS_REFUSED - deletion of system exchange 'amq.x' in vhost '/' not allowed", &wire.ExchangeDelete{Exchange: "amq.x"}),
		send1("exchange type", "PRECONDITION_FAILED - unknown exchange type 'sideways'", &wire.ExchangeDeclare{Exchange: "y", Type: "sideways"}),
		send1("queue in use", "PRECONDITION_FAILED - queue 'q' in vhost '/' in use", q, &wire.BasicConsume{Queue: "q"}, &wire.QueueDelete{Queue: "q", IfUnused: true}),
		{"queue not empty", func(p *peer) {
			p.all(&wire.QueueDeclare{Queue: "full", Durable: true})
			p.publish("", "full", false, message.Message{Body: []byte("x")})
			p.all(&wire.QueueDelete{Queue: "full", IfEmpty: true})
		}, wire.QueueDeleteID, "PRECONDITION_FAILED - queue 'full' in vhost '/' not empty"},
		send1("exchange in use", "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use", q, x, &wire.QueueBind{Queue: "q", Exchange: "x"}, &wire.ExchangeDelete{Exchange: "x", IfUnused: true}),
		send1("consumers and an exclusive one", "ACCESS_REFUSED - queue 'e' in vhost '/' in exclusive use",
			&wire.QueueDeclare{Queue: "e", Durable: true}, &wire.BasicConsume{Queue: "e", Exclusive: true}, &wire.BasicConsume{Queue: "e"}),
		send1("get of a single active consumer's", "RESOURCE_LOCKED - cannot obtain access to locked queue 's' in vhost '/'. "+
			"basic.get operations are not supported by quorum queues with single active consumer",
			&wire.QueueDeclare{Queue: "s", Durable: true, Arguments: message.Table{{Name: "x-single-active-consumer", Value: message.Bool(true)}}},
			&wire.BasicConsume{Queue: "s"}, &wire.BasicGet{Queue: "s"}),
		send1("the same tag", "NOT_ALLOWED - attempt to reuse consumer tag 'c'", q, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"}, &wire.BasicConsume{Queue: "q", ConsumerTag: "c"}),
		send1("unknown tag of a delivery", "PRECONDITION_FAILED - unknown delivery tag 9", &wire.BasicNack{DeliveryTag: 9}),
		send1("another length", "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received the value '5' of type 'signedint' but current is none",
			q, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: limited}),
		send1("no length", "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'limited' in vhost '/': received none but current is the value '5' of type 'signedint'",
			&wire.QueueDeclare{Queue: "limited", Durable: true, Arguments: limited}, &wire.QueueDeclare{Queue: "limited", Durable: true}),
		send1("another type of queue", "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': "+
			"received 'classic' but current is 'quorum'",
			q, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: message.Table{{Name: "x-queue-type", Value: message.String("classic")}}}),
		send1("auto-delete", "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'",
			q, &wire.QueueDeclare{Queue: "q", Durable: true, AutoDelete: true}),
		send1("another exchange", "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'topic' but current is 'fanout'", x, &wire.ExchangeDeclare{Exchange: "x", Type: "topic"}),
		send1("another alternate exchange", "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received the value 'y' of type 'longstr' but current is none",
			x, &wire.ExchangeDeclare{Exchange: "x", Type: "fanout", Arguments: message.Table{{Name: "alternate-exchange", Value: message.String("y")}}}),
		send1("no queue before", "NOT_FOUND - no previously declared queue", &wire.QueuePurge{}),
		publishes("internal exchange", "ACCESS_REFUSED - cannot publish to internal exchange 'i' in vhost '/'", "i", message.Message{},
			&wire.ExchangeDeclare{Exchange: "i", Type: "fanout", Internal: true}),
		publishes("user", "PRECONDITION_FAILED - user_id property set to 'joe' but authenticated user was 'guest'", "",
			message.Message{Properties: message.Properties{UserID: "joe", Has: message.HasUserID}}),
		publishes("content on the way", "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead", "", message.Message{},
			&wire.BasicPublish{}),
	}
	for s, why := range map[string]string{
		"abc": "no_integer", "": "no_integer", "-1": "{value_negative,-1}", "1.5": `{leftover_string,".5"}`, "10 s": `{leftover_string," s"}`,
		"315360000001": "{value_too_large,315360000001}",
	} {
		all = append(all, publishes("expiration "+strconv.Quote(s), "PRECONDITION_FAILED - invalid expiration '"+s+"': "+why, "", withExpiration(s)))
	}
	all = append(all, wordingsOfArguments()...)
	checkWordings(t, func(t *testing.T) *peer { return connect(t, c.AMQP(0)) }, all)
}

// wordingsOfArguments returns mistakes in the arguments of a queue or consumer.
func wordingsOfArguments() (all []wording) {
	declare := func(change func(*wire.QueueDeclare), text string) {
		m := &wire.QueueDeclare{Queue: "new", Durable: true, Arguments: message.Table{{Name: "x-queue-type", Value: message.String("quorum")}}}
		change(m)
		all = append(all, send1(text, "PRECONDITION_FAILED - "+text, m))
	}
	for _, x := range []struct {
		arg   string
		value message.Value
		why   string
	}{
		{"x-max-length", message.Int64(-5), "{value_negative,-5}"},
		{"x-max-length", message.String("5"), `"expected integer, got longstr"`},
		{"x-expires", message.Int32(0), "{value_zero,0}"},
		{"x-message-ttl", message.Int64(315360000001), "{value_too_large,315360000001}"},
		{"x-queue-type", message.String("heap"), `"unsupported queue type 'heap'"`},
		{"x-queue-type", message.Int32(5), "{unacceptable_type,signedint}"},
		{"x-overflow", message.String("spill"), "invalid_overflow"},
		{"x-dead-letter-strategy", message.String("never"), "invalid_dlx_strategy"},
		{"x-dead-letter-routing-key", message.String("k"), "routing_key_but_no_dlx_defined"},
		{"x-single-active-consumer", message.String("yes"), "{unacceptable_type,longstr}"},
		// RabbitMQ accepts any value for this one.
		{"x-delivery-limit", message.String("abc"), `"abc": want an integer, have string`},
	} {
		declare(func(m *wire.QueueDeclare) { m.Arguments.Set(x.arg, x.value) }, "invalid arg '"+x.arg+"' for queue 'new' in vhost '/': "+x.why)
	}
	declare(func(m *wire.QueueDeclare) { m.Arguments.Set("x-dead-letter-exchange", message.Int32(5)) },
		"invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'new' in vhost '/'")
	declare(func(m *wire.QueueDeclare) { m.Arguments.Set("x-max-priority", message.Int32(5)) },
		"invalid arg 'x-max-priority' for queue 'new' in vhost '/' of queue type rabbit_quorum_queue")
	declare(func(m *wire.QueueDeclare) { m.Durable = false }, "invalid property 'non-durable' for queue 'new' in vhost '/'")
	declare(func(m *wire.QueueDeclare) { m.Exclusive = true }, "invalid property 'exclusive-owner' for queue 'new' in vhost '/'")
	declare(func(m *wire.QueueDeclare) { m.AutoDelete = true }, "invalid property 'auto-delete' for queue 'new' in vhost '/'")
	declare(func(m *wire.QueueDeclare) { m.Queue = "" }, "Cannot declare a server-named queue for type rabbit_quorum_queue")
	return append(
		all,
		send1("priority", `PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': "expected integer, got longstr"`,
			&wire.QueueDeclare{Queue: "q", Durable: true},
			&wire.BasicConsume{Queue: "q", Arguments: message.Table{{Name: "x-priority", Value: message.String("high")}}}),
		publishes("CC", `PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}`, "",
			message.Message{Headers: message.Table{{Name: "CC", Value: message.String("k")}}}),
	)
}

// Refusals for lack of rights have RabbitMQ's words (AM-15).
func TestWordingsOfRefusals(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	b, ctx := c.Broker(0), all(t)
	must := func(_ bool, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Administration.PutUser(ctx, administration.PutUser{Name: "u", Password: "u"}))
	must(b.Administration.SetPermission(ctx, administration.Permission{User: "u", VHost: "/", Configure: "^mine", Write: "^(mine|amq[.]topic)", Read: "^(mine|amq[.]topic)"}))
	must(b.Administration.SetTopicPermission(ctx, administration.TopicPermission{User: "u", VHost: "/", Exchange: "amq.topic", Write: "^mine", Read: "^mine"}))
	must(b.Administration.PutVHost(ctx, administration.VHost{Name: "v", VHostLimits: administration.NoVHostLimits()}))
	must(b.Administration.PutVHost(ctx, administration.VHost{Name: "small", VHostLimits: administration.NoVHostLimits()}))
	must(false, b.Administration.SetVHostLimits(ctx, "small", vhostLimits("max-connections", 0)))
	must(false, b.Administration.SetVHostLimits(ctx, "/", vhostLimits("max-queues", 1)))
	must(b.Administration.PutUser(ctx, administration.PutUser{Name: "bounded", Password: "bounded"}))
	must(b.Administration.SetPermission(ctx, administration.Permission{User: "bounded", VHost: "/", Configure: ".*"}))
	testcluster.Poll(t, "limits of declarers are set", func() error {
		return b.Administration.SetUserLimits(ctx, "bounded", userLimits("max-queues", 0))
	})
	checkWordings(t, func(t *testing.T) *peer { return connectAs(t, c.AMQP(0), "bounded") }, []wording{
		send1("too many queues of a user", `PRECONDITION_FAILED - user "bounded": max-queues = 0: the user has declared 0 queues, so queue "q" in vhost "/" cannot be made; delete some, or raise the limit`,
			&wire.QueueDeclare{Queue: "q", Durable: true}),
	})
	mine := &wire.QueueDeclare{Queue: "mine", Durable: true}
	checkWordings(t, func(t *testing.T) *peer { return connectAs(t, c.AMQP(0), "u") }, []wording{
		send1("configure", "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'u'", &wire.QueueDeclare{Queue: "q", Durable: true}),
		send1("passive", "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'u'", &wire.QueueDeclare{Queue: "q", Passive: true}),
		send1("exchange", "ACCESS_REFUSED - configure access to exchange 'x' in vhost '/' refused for user 'u'", &wire.ExchangeDeclare{Exchange: "x", Type: "direct"}),
		send1("bind", "ACCESS_REFUSED - read access to exchange 'amq.direct' in vhost '/' refused for user 'u'", mine, &wire.QueueBind{Queue: "mine", Exchange: "amq.direct"}),
		send1("bind a topic", "ACCESS_REFUSED - read access to topic 'k' in exchange 'amq.topic' in vhost '/' refused for user 'u'",
			mine, &wire.QueueBind{Queue: "mine", Exchange: "amq.topic", RoutingKey: "k"}),
		send1("consume", "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'u'", &wire.BasicConsume{Queue: "q"}),
		publishes("publish", "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'u'", "", message.Message{}),
		publishes("publish a topic", "ACCESS_REFUSED - write access to topic 'k' in exchange 'amq.topic' in vhost '/' refused for user 'u'", "amq.topic", message.Message{}),
		send1("too many queues", "PRECONDITION_FAILED - cannot declare queue 'mine too': queue limit in vhost '/' (1) is reached", mine, &wire.QueueDeclare{Queue: "mine too", Durable: true}),
	})
	open := func(vhost, text string) wording {
		return wording{vhost, func(p *peer) {
			p.loginAs("u", "u")
			want[*wire.ConnectionTune](p)
			p.send(0, &wire.ConnectionTuneOK{})
			p.send(0, &wire.ConnectionOpen{VirtualHost: vhost})
		}, wire.ConnectionOpenID, text}
	}
	must(b.Administration.SetPermission(ctx, administration.Permission{User: "u", VHost: "small"}))
	checkWordings(t, func(t *testing.T) *peer { return dial(t, c.AMQP(0)) }, []wording{
		open("v", "NOT_ALLOWED - access to vhost 'v' refused for user 'u'"),
		open("nowhere", "NOT_ALLOWED - vhost nowhere not found"),
		open("small", "NOT_ALLOWED - access to vhost 'small' refused for user 'u': connection limit (0) is reached"),
	})
	must(false, b.Administration.SetUserLimits(ctx, "u", userLimits("max-channels", 1)))
	checkWordings(t, func(t *testing.T) *peer { return connectAs(t, c.AMQP(0), "u") }, []wording{{
		"channels", func(p *peer) { p.send(2, &wire.ChannelOpen{}) }, wire.ChannelOpenID,
		"NOT_ALLOWED - number of channels opened for user 'u' has reached the maximum allowed user limit of 1",
	}})
	must(false, b.Administration.SetUserLimits(ctx, "u", userLimits("max-connections", 0)))
	checkWordings(t, func(t *testing.T) *peer { return dial(t, c.AMQP(0)) }, []wording{
		open("/", "NOT_ALLOWED - connection refused for user 'u': user connection limit (0) is reached"),
	})
}

// vhostLimits returns limits with a value for one of them only.
func vhostLimits(name string, n int64) administration.VHostLimits {
	l := administration.NoVHostLimits()
	l.SetLimit(name, n)
	return l
}

func userLimits(name string, n int64) administration.UserLimits {
	l := administration.NoUserLimits()
	l.SetLimit(name, n)
	return l
}

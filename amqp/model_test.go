package amqp_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// script writes random methods of one channel, and what a server that does one after another answers.
type script struct {
	rnd       *rand.Rand
	channel   uint16
	frames    [][]byte
	want      []string            // answers in order, without confirms
	queues    map[string][]string // bodies of the waiting messages
	confirms  bool
	delivered uint64
	published []uint64 // in confirm mode, by how often the channel was opened before

	opened int             // how often the client has read that
	acked  map[uint64]bool // what was confirmed since
}

func newScript(rnd *rand.Rand, channel uint16) *script {
	s := &script{rnd: rnd, channel: channel, queues: map[string][]string{}}
	s.open()
	return s
}

func (s *script) open() {
	s.confirms, s.delivered, s.published = false, 0, append(s.published, 0)
	s.do(&wire.ChannelOpen{}, "channel.open-ok")
}

// do sends a method and expects answers.
func (s *script) do(m wire.Method, want ...string) {
	s.frames = append(s.frames, wire.AppendMethod(nil, s.channel, m))
	s.want = append(s.want, want...)
}

// unless leaves the answer out.
func unless(noWait bool, want string, args ...any) []string {
	if noWait {
		return nil
	}
	return []string{fmt.Sprintf(want, args...)}
}

// publish sends a message in the frames of its content.
func (s *script) publish(x *wire.BasicPublish, body string) {
	m := message.Message{Body: []byte(body)}
	s.do(x)
	s.frames = append(s.frames, wire.AppendContentHeader(nil, s.channel, &m, nil), wire.AppendBody(nil, s.channel, m.Body, 8192))
	if s.confirms {
		s.published[len(s.published)-1]++
	}
}

// step adds one random method, or a few that belong together.
func (s *script) step() {
	name := fmt.Sprintf("queue %d of %d", s.rnd.IntN(3), s.channel)
	waiting, exists := s.queues[name]
	noWait := s.rnd.IntN(3) == 0
	switch n := s.rnd.IntN(20); {
	case n < 2 || !exists && n < 15:
		s.do(&wire.QueueDeclare{Queue: name, Durable: true, NoWait: noWait}, unless(noWait, "queue.declare-ok %s %d", name, len(waiting))...)
		s.queues[name] = waiting
	case n < 6:
		body := fmt.Sprint(len(s.frames))
		s.publish(&wire.BasicPublish{RoutingKey: name}, body)
		s.queues[name] = append(waiting, body)
	case n < 7:
		s.publish(&wire.BasicPublish{RoutingKey: "nowhere", Mandatory: true}, "back")
		s.want = append(s.want, "basic.return back")
	case n < 10:
		s.get(name)
	case n < 11:
		s.do(&wire.QueuePurge{Queue: name, NoWait: noWait}, unless(noWait, "queue.purge-ok %d", len(waiting))...)
		s.queues[name] = nil
	case n < 12:
		s.do(&wire.QueueBind{Queue: name, Exchange: "amq.direct", RoutingKey: name, NoWait: noWait}, unless(noWait, "queue.bind-ok")...)
		body := fmt.Sprint(len(s.frames))
		s.publish(&wire.BasicPublish{Exchange: "amq.direct", RoutingKey: name}, body)
		s.queues[name] = append(waiting, body)
		s.do(&wire.QueueUnbind{Queue: name, Exchange: "amq.direct", RoutingKey: name}, "queue.unbind-ok")
	case n < 13:
		s.do(&wire.QueueDelete{Queue: name, NoWait: noWait}, unless(noWait, "queue.delete-ok %d", len(waiting))...)
		delete(s.queues, name)
	case n < 14:
		s.do(&wire.QueueDeclare{Queue: name, Durable: true, Passive: true}, fmt.Sprintf("queue.declare-ok %s %d", name, len(waiting)))
	default:
		s.stepAnyway(n)
	}
}

// get takes a message and settles it in one of the ways.
func (s *script) get(name string) {
	waiting, how := s.queues[name], s.rnd.IntN(3)
	m := &wire.BasicGet{Queue: name, NoAck: how == 0}
	if len(waiting) == 0 {
		s.do(m, "basic.get-empty")
		return
	}
	s.delivered++
	s.do(m, fmt.Sprintf("basic.get-ok %d %s", s.delivered, waiting[0]))
	s.queues[name] = waiting[1:]
	switch how {
	case 1:
		s.do(&wire.BasicAck{DeliveryTag: s.delivered})
	case 2:
		s.do(&wire.BasicReject{DeliveryTag: s.delivered})
	}
}

// stepAnyway adds a method that needs no queue.
func (s *script) stepAnyway(n int) {
	exchange := fmt.Sprintf("exchange of %d", s.channel)
	switch n {
	case 14:
		s.do(&wire.ExchangeDeclare{Exchange: exchange, Type: "fanout"}, "exchange.declare-ok")
		s.do(&wire.ExchangeBind{Source: exchange, Destination: "amq.topic"}, "exchange.bind-ok")
		s.do(&wire.ExchangeDelete{Exchange: exchange}, "exchange.delete-ok")
	case 15:
		s.do(&wire.BasicQos{PrefetchCount: 5}, "basic.qos-ok")
	case 16:
		s.do(&wire.ConfirmSelect{}, "confirm.select-ok")
		s.confirms = true
	case 17:
		s.do(&wire.BasicCancel{ConsumerTag: "none"}, "basic.cancel-ok")
	case 18: // a fault: what follows is dropped until the client answers
		s.do(&wire.QueueDeclare{Queue: "missing", Passive: true}, "channel.close")
		s.do(&wire.QueuePurge{Queue: "missing"})
		s.do(&wire.BasicQos{})
		s.do(&wire.ChannelCloseOK{})
		s.open()
	case 19:
		s.do(&wire.ChannelClose{ReplyCode: 200}, "channel.close-ok")
		s.open()
	}
}

// confirm takes a confirm, and reports whether it is wrong: for what was not published, or again.
func (s *script) confirm(a *wire.BasicAck) bool {
	first := a.DeliveryTag
	if a.Multiple {
		first = 1
	}
	for tag := first; tag <= a.DeliveryTag; tag++ {
		if tag == a.DeliveryTag && s.acked[tag] {
			return true
		}
		s.acked[tag] = true
	}
	return a.DeliveryTag > s.published[s.opened-1]
}

// unconfirmed reports whether publishes since the last opening wait for confirms.
func (s *script) unconfirmed() bool { return len(s.acked) < int(s.published[len(s.published)-1]) } // few

// answer takes the next method that the client reads.
func (s *script) answer(t *testing.T, p *peer, m wire.Method) {
	t.Helper()
	what := m.ID().String()
	switch m := m.(type) {
	case *wire.BasicAck:
		if s.confirm(m) {
			t.Fatalf("channel %d: confirm of %d of %d, of which %d are confirmed", s.channel, m.DeliveryTag, s.published[s.opened-1], len(s.acked))
		}
		return
	case *wire.ChannelOpenOK:
		s.opened++
		s.acked = map[uint64]bool{}
	case *wire.QueueDeclareOK:
		what += fmt.Sprintf(" %s %d", m.Queue, m.MessageCount)
	case *wire.QueuePurgeOK:
		what += fmt.Sprint(" ", m.MessageCount)
	case *wire.QueueDeleteOK:
		what += fmt.Sprint(" ", m.MessageCount)
	case *wire.BasicGetOK:
		_, body := p.content()
		what += fmt.Sprintf(" %d %s", m.DeliveryTag, body)
	case *wire.BasicReturn:
		_, body := p.content()
		what += " " + string(body)
	}
	if len(s.want) == 0 || s.want[0] != what {
		t.Fatalf("channel %d got %q, want %q", s.channel, what, s.want)
	}
	s.want = s.want[1:]
}

// Whatever many channels of a connection do at the same time, each gets the answers that a server
// gives that does one method of the channel after another (AM-13, AM-16).
func TestChannelsLikeOneByOne(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	const channels, steps, rounds = 16, 50, 2
	c := testcluster.Start(t, 1)
	for range rounds {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 0))
		p := dial(t, c.AMQP(0))
		p.patience = rounds * time.Minute // it does much
		p.login("guest")
		want[*wire.ConnectionTune](p)
		p.send(0, &wire.ConnectionTuneOK{ChannelMax: 100, FrameMax: 8192})
		p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
		want[*wire.ConnectionOpenOK](p)
		var all []*script
		for n := range uint16(channels) {
			s := newScript(rnd, n+1)
			for range steps {
				s.step()
			}
			for _, q := range slices.Sorted(maps.Keys(s.queues)) { // leave nothing for the next round
				s.do(&wire.QueueDelete{Queue: q}, fmt.Sprintf("queue.delete-ok %d", len(s.queues[q])))
			}
			all = append(all, s)
		}
		t.Log("seed", seed)
		go func() { _, _ = p.nc.Write(interleaved(rnd, all)) }()
		for slices.ContainsFunc(all, func(s *script) bool { return len(s.want) > 0 || s.unconfirmed() }) {
			n, m := p.methodOn()
			all[n-1].answer(t, p, m)
		}
		p.send(0, &wire.ConnectionClose{ReplyCode: 200})
		want[*wire.ConnectionCloseOK](p)
	}
}

// interleaved mixes the frames of all channels, keeping the order of each.
func interleaved(rnd *rand.Rand, all []*script) (out []byte) {
	var turns []int
	for i, s := range all {
		for range s.frames {
			turns = append(turns, i)
		}
	}
	rnd.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	next := make([]int, len(all))
	for _, i := range turns {
		out = append(out, all[i].frames[next[i]]...)
		next[i]++
	}
	return out
}

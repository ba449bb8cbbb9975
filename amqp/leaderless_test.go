package amqp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// commandPatience is how long methods wait for a leader: longer than the tests of them last.
const commandPatience = 3 * time.Minute

// leaderless is a cluster of five nodes in which the queue "stuck" of the vhost "work" has no leader:
// of its three members that on node 0 runs alone. The catalog has a majority, and so has "quick".
type leaderless struct {
	*testcluster.Cluster
	*amqp.Server
	address string // of the server, on node 0
	down    []int
	getter  *peer // holds delivery 1 of stuck on channel 1, taken by basic.get
}

// three declares a queue with three members.
func three(queue string) *wire.QueueDeclare {
	return &wire.QueueDeclare{Queue: queue, Durable: true, Arguments: message.Table{
		{Name: "x-queue-type", Value: message.String("quorum")}, {Name: "x-quorum-initial-group-size", Value: message.Int32(3)},
	}}
}

func startLeaderless(t *testing.T) *leaderless {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	l := &leaderless{Cluster: testcluster.StartPatient(t, 5, commandPatience)}
	admin, b := all(t), l.Broker(0)
	must := func(_ bool, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Administration.PutVHost(admin, administration.VHost{Name: "work", VHostLimits: administration.NoVHostLimits()}))
	for _, user := range []string{"anna", "bert"} {
		must(b.Administration.PutUser(admin, administration.PutUser{Name: user, Password: user}))
		must(b.Administration.SetPermission(admin, administration.Permission{User: user, VHost: "work", Configure: ".*", Write: ".*", Read: ".*"}))
	}
	l.Server, l.address = serve(t, l.Cluster, amqp.Config{})
	l.getter = l.enter(t)
	l.getter.send(1, three("stuck"))
	want[*wire.QueueDeclareOK](l.getter)
	l.getter.send(1, &wire.ConfirmSelect{})
	want[*wire.ConfirmSelectOK](l.getter)
	l.getter.publish("", "stuck", false, message.Message{Body: []byte("x")})
	want[*wire.BasicAck](l.getter)
	l.getter.send(1, &wire.BasicGet{Queue: "stuck"})
	want[*wire.BasicGetOK](l.getter)
	l.getter.content()
	r, _ := l.Cluster.Cluster(0).View().Queue("work", "stuck")
	for _, n := range r.Members {
		if i := l.Index(string(n)); i != 0 {
			l.down = append(l.down, i)
			l.Kill(i)
		}
	}
	p := l.enter(t)
	p.send(1, three("quick"))
	want[*wire.QueueDeclareOK](p)
	_ = p.nc.Close()
	return l
}

// enter opens a connection with the channels 1 and 2.
func (l *leaderless) enter(t *testing.T) *peer {
	t.Helper()
	return enter(t, l.address, "anna")
}

func enter(t *testing.T, address, user string) *peer {
	t.Helper()
	p := dial(t, address)
	p.patience = commandPatience
	p.loginAs(user, user)
	want[*wire.ConnectionTune](p)
	p.send(0, &wire.ConnectionTuneOK{ChannelMax: 100, FrameMax: 8192})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "work"})
	want[*wire.ConnectionOpenOK](p)
	p.open(1)
	p.open(2)
	return p
}

// works shows that channel 2 changes the topology, publishes, gets confirms and consumes.
func (p *peer) works() {
	p.t.Helper()
	own := "of " + p.name()
	p.send(2, &wire.ConfirmSelect{})
	on[*wire.ConfirmSelectOK](p, 2)
	p.send(2, three(own))
	on[*wire.QueueDeclareOK](p, 2)
	p.send(2, &wire.QueueBind{Queue: own, Exchange: "amq.direct", RoutingKey: own})
	on[*wire.QueueBindOK](p, 2)
	for tag := range uint64(10) {
		p.publishOn(2, &wire.BasicPublish{Exchange: "amq.direct", RoutingKey: own}, message.Message{Body: []byte("x")})
		if a := on[*wire.BasicAck](p, 2); a.DeliveryTag != tag+1 {
			p.t.Fatalf("%+v, want the confirm of %d", a, tag+1)
		}
	}
	p.send(2, &wire.BasicConsume{Queue: own, NoAck: true})
	on[*wire.BasicConsumeOK](p, 2)
	for range 10 {
		on[*wire.BasicDeliver](p, 2)
		p.content()
	}
}

// Methods that wait for a queue without a leader hold up their own channel alone, and end with what
// they wait for, or with their connection (AM-16).
func TestLeaderless(t *testing.T) {
	t.Parallel()
	l := startLeaderless(t)
	t.Run("all", func(t *testing.T) {
		again := three("stuck")
		again.NoWait = true
		for _, m := range []wire.Method{
			three("stuck"), again, &wire.QueueDeclare{Queue: "stuck", Passive: true},
			&wire.QueuePurge{Queue: "stuck"}, &wire.QueuePurge{Queue: "stuck", NoWait: true}, &wire.QueueDelete{Queue: "stuck", IfEmpty: true},
			&wire.BasicGet{Queue: "stuck"}, &wire.BasicConsume{Queue: "stuck"},
		} {
			t.Run(m.ID().String(), func(t *testing.T) {
				t.Parallel()
				p := l.enter(t)
				p.waits(m)
				p.works()
				p.send(2, &wire.ChannelClose{ReplyCode: 200})
				on[*wire.ChannelCloseOK](p, 2)
				_ = p.nc.Close()
			})
		}
		t.Run("more than run at the same time", func(t *testing.T) {
			t.Parallel()
			p := l.enter(t)
			for n := uint16(3); n <= 40; n++ {
				p.open(n)
				p.send(n, &wire.QueuePurge{Queue: "stuck"})
			}
			p.send(1, &wire.BasicQos{PrefetchCount: 1}) // waits for nothing
			on[*wire.BasicQosOK](p, 1)
			_ = p.nc.Close()
		})
		t.Run("ends", func(t *testing.T) { l.testEnds(t) })
	})
	t.Run("settling what get has taken", func(t *testing.T) {
		l.getter.t = t
		l.getter.waits(&wire.BasicAck{DeliveryTag: 1})
		l.getter.works()
	})
	testcluster.Poll(t, "only one connection is left, though the methods would wait for longer", func() error {
		if n := l.Stats(); n.Connections != 1 || n.Channels != 2 {
			return errorOf(n)
		}
		return nil
	})
	l.testOrder(t)
	l.Kill(l.down[0])
	t.Run("the vhost is deleted", func(t *testing.T) {
		p := l.enter(t)
		p.waits(&wire.QueuePurge{Queue: "stuck"})
		if _, err := l.Broker(0).Administration.DeleteVHost(all(t), "work"); err != nil {
			t.Fatal(err)
		}
		p.forced("vhost 'work' was deleted")
	})
}

// forced reads the connection's end by the server, behind which nothing comes, although a method was
// under way. The method may have ended with its queue.
func (p *peer) forced(text string) {
	p.t.Helper()
	channel, m := p.methodOn()
	if _, is := m.(*wire.ChannelClose); is && channel == 1 {
		_, m = p.methodOn()
	}
	x, is := m.(*wire.ConnectionClose)
	if !is || wire.ReplyCode(x.ReplyCode) != wire.ConnectionForced || !strings.Contains(x.ReplyText, text) {
		p.t.Fatalf("%s %+v, want connection.close with %q", m.ID(), m, text)
	}
	p.send(0, &wire.ConnectionCloseOK{})
	p.ended()
}

// testEnds ends connections while a method waits.
func (l *leaderless) testEnds(t *testing.T) {
	for _, end := range []struct {
		name, user, text string
		cause            func(*testing.T, *peer, *amqp.Server) error
	}{
		{"by an operator", "anna", "for a test", func(t *testing.T, p *peer, _ *amqp.Server) error {
			return l.Broker(0).Connections.EndConnection(all(t), p.name(), "for a test")
		}},
		{"with its user", "bert", "user 'bert' was deleted", func(t *testing.T, _ *peer, _ *amqp.Server) error {
			_, err := l.Broker(0).Administration.DeleteUser(all(t), "bert")
			return err
		}},
		{"with the server", "anna", "the node is stopping", func(t *testing.T, _ *peer, s *amqp.Server) error {
			go func() { _ = s.Shutdown(t.Context()) }()
			return nil
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			s, address := serve(t, l.Cluster, amqp.Config{})
			p := enter(t, address, end.user)
			p.waits(&wire.QueuePurge{Queue: "stuck"})
			if err := end.cause(t, p, s); err != nil {
				t.Fatal(err)
			}
			p.forced(end.text)
			testcluster.Poll(t, "the connection is gone", func() error {
				if n := s.Stats(); n.Connections != 0 || n.Channels != 0 {
					return errorOf(n)
				}
				return nil
			})
		})
	}
}

// testOrder shows that all that waited behind a method is done and answered in order, once the queue
// has a leader again.
func (l *leaderless) testOrder(t *testing.T) {
	p := l.enter(t)
	p.send(1, &wire.ConfirmSelect{})
	on[*wire.ConfirmSelectOK](p, 1)
	p.waits(&wire.QueueDeclare{Queue: "stuck", Passive: true})
	for range 100 {
		p.publish("", "quick", false, message.Message{Body: []byte("x")})
	}
	p.send(1, &wire.QueueDeclare{Queue: "quick", Passive: true})
	p.works()
	l.Restart(l.down[0])
	// The message that getter took is acknowledged, or has returned: it was away for long.
	on[*wire.QueueDeclareOK](p, 1)
	on[*wire.BasicQosOK](p, 1)
	for {
		switch m := p.method().(type) {
		case *wire.BasicAck:
			continue
		case *wire.QueueDeclareOK:
			if m.MessageCount != 100 {
				t.Errorf("%d messages, want the 100 that came before", m.MessageCount)
			}
		default:
			t.Fatalf("%s, want confirms and declare-ok", m.ID())
		}
		break
	}
	on[*wire.BasicQosOK](l.getter, 1)
	_ = l.getter.nc.Close()
	_ = p.nc.Close()
}

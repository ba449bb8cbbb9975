package broker

import (
	"context"
	"sync"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
)

// Sender is the publisher on one stream or channel, with what the broker has found out about it. Only one goroutine at
// a time may use it.
type Sender struct {
	b       *Broker
	session *identity.Session                           // nil: it may do everything
	who     *identity.Identity                          // as of the last message; nil: it may do everything
	enter   func(vhost string) (exists bool, err error) // counts the connection in a vhost
	entered string                                      // the vhost that the connection was counted in last
	rights  *SendRights
	gates   limits.Sender
	// exchange is the one that it published to last, and counts are those of it.
	exchange *catalog.Exchange
	counts   *clients.ExchangeCounts
}

// SendRights caches, for all senders of a connection, what its users may do at exchanges: while users and permissions
// stay the same, each exchange is decided about only once. The zero value is empty. Senders may use it concurrently.
type SendRights struct {
	mu      sync.Mutex
	decided map[sendTo]permission.SendRight
}

// sendTo is a user and an exchange, the key of SendRights.
type sendTo struct {
	user            *catalog.User
	vhost, exchange string
}

// maxDecided limits how many exchanges SendRights remember.
const maxDecided = 256

// known returns an earlier decision.
func (r *SendRights) known(to sendTo) (d permission.SendRight, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, known = r.decided[to]
	return d, known
}

// remember stores a decision. If there are too many, it drops all earlier ones.
func (r *SendRights) remember(to sendTo, d permission.SendRight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decided == nil || len(r.decided) >= maxDecided {
		r.decided = map[sendTo]permission.SendRight{}
	}
	r.decided[to] = d
}

// NewSender returns a sender with the identity of a context. All senders of the connection share rights.
func (b *Broker) NewSender(ctx context.Context, rights *SendRights) (*Sender, error) {
	who, err := b.Logins.Who(ctx)
	if err != nil {
		return nil, err
	}
	return &Sender{
		b: b, session: identity.SessionOf(ctx), who: who, rights: rights, gates: b.Limits.NewSender(),
		enter: func(vhost string) (bool, error) { return b.Connections.EnterVHost(ctx, vhost) },
	}, nil
}

// current updates who to the identity that the session has now (ID-5).
func (s *Sender) current() error {
	if s.session == nil {
		return nil
	}
	who, err := s.b.Logins.WhoOf(s.session)
	if err == nil {
		s.who = who
	}
	return err
}

// right returns what the sender may do at an exchange. It allocates only for exchanges that it has not seen before.
func (s *Sender) right(v *catalog.View, vhost, exchange string) permission.SendRight {
	set := v.AccessSet(vhost)
	to := sendTo{s.who.Record(), vhost, exchange}
	d, known := s.rights.known(to)
	if known && d.Set == set {
		return d
	}
	d = s.b.Permissions.Decide(v, s.who, permission.Exchange(vhost, exchange))
	d.Set = set
	s.rights.remember(to, d)
	return d
}

// mayPublish checks that the sender may publish to an exchange, and returns what else limits a message.
func (s *Sender) mayPublish(v *catalog.View, vhost, exchange string) (permission.SendRight, error) {
	if vhost != s.entered { // VH-4
		exists, err := s.enter(vhost)
		if err != nil {
			return permission.SendRight{}, err
		}
		if exists {
			s.entered = vhost
		}
	}
	if err := s.current(); err != nil {
		return permission.SendRight{}, err
	}
	if s.who == nil {
		return permission.SendRight{Any: true}, nil
	}
	d := s.right(v, vhost, exchange)
	return d, d.Err
}

// Held reports whether the next message into a vhost must wait, and for how long until the caller asks again. Only the
// goroutine that publishes may call it.
func (s *Sender) Held(vhost string) (limits.Hold, bool) { return s.gates.Held(s.who, vhost) }

// charge counts a message towards the limits of its sender and vhost; bytes is the size of the body.
func (s *Sender) charge(v *catalog.View, vhost string, bytes int) {
	s.gates.Charge(v, s.who, vhost, bytes)
}

// countExchange counts a message to an exchange and the queues that it was routed to. A sender remembers the counts of its
// last exchange, so that most publishes look for nothing.
func (b *Broker) countExchange(s *Sender, x *catalog.Exchange, queues int) {
	if s == nil {
		b.clients.ExchangeCounts(x, b.view).Add(queues)
		return
	}
	if s.exchange != x {
		s.exchange, s.counts = x, b.clients.ExchangeCounts(x, b.view)
	}
	s.counts.Add(queues)
}

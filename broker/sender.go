package broker

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
)

// Sender is who publishes on one stream or channel, with what was found out about it: while users and
// permissions stay the same, an exchange is decided about once. One goroutine at a time
// may use it.
type Sender struct {
	b       *Broker
	session *session                                    // nil: it may do everything
	who     *Identity                                   // as of the last message; nil: it may do everything
	enter   func(vhost string) (exists bool, err error) // counts the connection in a vhost
	entered string                                      // the vhost that the connection was counted in last
	decided map[sendTo]sendRight
	gates   senderGates
	timer   *time.Timer // of AwaitQuotas
}

type sendTo struct{ vhost, exchange string }

// sendRight is what a sender may do at an exchange as long as set is the view's.
type sendRight struct {
	set   catalog.AccessSet
	err   error
	topic *grant // bounds the keys at a topic exchange; nil: nothing does
	any   bool   // may publish with any user_id (MSG-3)
}

// maxDecided bounds the exchanges that a Sender remembers.
const maxDecided = 128

// NewSender returns that of a context's identity.
func (b *Broker) NewSender(ctx context.Context) (*Sender, error) {
	who, err := b.Who(ctx)
	if err != nil {
		return nil, err
	}
	return &Sender{b: b, session: sessionOf(ctx), who: who, enter: func(vhost string) (bool, error) { return b.enterVHost(ctx, vhost) }}, nil
}

// current sees to it that who is whom the session stands for now (ID-5).
func (s *Sender) current() error {
	if s.session == nil {
		return nil
	}
	who, err := s.b.still(s.session.who.Load())
	if err == nil && who != s.who {
		s.who, s.decided = who, nil
	}
	return err
}

// right returns what the sender may do at an exchange. It allocates only for what it has
// not seen.
func (s *Sender) right(v *catalog.View, vhost, exchange string) sendRight {
	set := v.AccessSet(vhost)
	to := sendTo{vhost, exchange}
	d, known := s.decided[to]
	if known && d.set == set {
		return d
	}
	d = s.b.decide(v, s.who, exchangeOf(vhost, exchange))
	d.set = set
	if s.decided == nil || len(s.decided) >= maxDecided {
		s.decided = map[sendTo]sendRight{}
	}
	s.decided[to] = d
	return d
}

func (b *Broker) decide(v *catalog.View, who *Identity, x thing) (d sendRight) {
	u, user := who.user, who.User()
	if !who.strange {
		now, exists := v.User(user)
		if !exists {
			d.err = unauthenticated("user " + quoted(user) + " does not exist any more")
			return d
		}
		u = now
	}
	d.any = is(u, TagImpersonator)
	g, err := b.permission(v, who, x.vhost)
	if err != nil {
		d.err = err
		return d
	}
	if !b.matches(g, write, x.matched()) {
		d.err = x.refused(user, write.String())
		return d
	}
	d.topic = b.topicPermission(v, who, x.vhost, x.name)
	return d
}

// permitPublish asks for the right to publish at the exchange, and returns what bounds the
// message beyond that.
func (p *publishing) permitPublish(v *catalog.View, m *Publish) (sendRight, error) {
	s := m.Sender
	if s == nil {
		if p.b.cfg.Authenticate {
			return sendRight{}, unauthenticated("nobody is logged in; send user and password, or a token")
		}
		return sendRight{any: true}, nil
	}
	if m.VHost != s.entered { // VH-4
		exists, err := s.enter(m.VHost)
		if err != nil {
			return sendRight{}, err
		}
		if exists {
			s.entered = m.VHost
		}
	}
	if err := s.current(); err != nil {
		return sendRight{}, err
	}
	if s.who == nil {
		return sendRight{any: true}, nil
	}
	d := s.right(v, m.VHost, m.Exchange)
	return d, d.err
}

// permitUserID refuses to publish in somebody else's name (MSG-3).
func permitUserID(m *Publish, d *sendRight) error {
	id := m.Properties.UserID
	if id == "" || d.any || id == m.Sender.who.User() {
		return nil
	}
	about := aboutMessage(m)
	about.Class, about.Arg, about.Value = PreconditionFailed, "user_id", quoted(id)
	about.Problem, about.User = ProblemUserID, m.Sender.who.User()
	about.Reason = "the message comes from user " + quoted(m.Sender.who.User()) + "; send that, none, or get the tag " + TagImpersonator
	return &about
}

// permitKeys asks whether all keys of the message are within the bounds of a topic
// permission (VH-8).
func (p *publishing) permitKeys(m *Publish, x *catalog.Exchange, bounds *grant) error {
	if bounds == nil || x.Type != catalog.ExchangeTopic {
		return nil
	}
	i := slices.IndexFunc(p.keys, func(key string) bool { return !p.b.matches(bounds, write, key) })
	if i < 0 {
		return nil
	}
	return exchangeOf(m.VHost, m.Exchange).refusedKey(m.Sender.who.User(), write, p.keys[i])
}

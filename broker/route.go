package broker

import (
	"context"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// routed is a message that was checked and routed. It can be reused, with its slices, for another
// message.
type routed struct {
	b        *Broker
	exchange *catalog.Exchange // that it is published to
	given    given
	ttlMs    int64
	later    quorumq.Delay
	keys     []string // memory of the message's RoutingKeys
	routing  catalog.Publication
	uids     []id.QueueUID // the queues that it is routed to
}

// given is what prepare replaces in a message.
type given struct {
	expiration string
	headers    message.Table
}

// prepare checks the message in the order of PUB-1, gives it its stored form, and routes. restore must follow.
func (r *routed) prepare(ctx context.Context, m *Publish) error {
	r.given = given{m.Expiration, m.Headers}
	most := r.b.cfg.MaxBodyBytes
	if len(m.Body) > most { // MSG-2
		return tooLarge(m, most)
	}
	r.uids = r.uids[:0]
	v, err := r.b.Serving.View()
	if err != nil {
		return err
	}
	right, err := r.b.permitPublish(v, m)
	if err != nil {
		return err
	}
	x, err := serving.PublishExchange(v, m.VHost, m.Exchange)
	if err != nil {
		return err
	}
	r.exchange = x
	if r.ttlMs, err = expiration(&m.Message); err != nil {
		about := aboutMessage(m)
		about.Problem = failure.ProblemExpiration
		return failure.Translate(err, about)
	}
	if r.keys, err = routingKeys(&m.Message, m.RoutingKey, r.keys); err != nil {
		return aboutKeys(failure.Translate(err, aboutMessage(m)), m.Headers)
	}
	if m.Exchange == "" { // AM-3
		v = r.b.resolveReplies(ctx, m.VHost, r.keys, v)
	}
	if err := permitKeys(m, r.keys, x, right.Topic); err != nil {
		return err
	}
	if err := permitUserID(m, &right); err != nil {
		return err
	}
	if !withinLimits(&m.Message) {
		if err := message.CheckLimits(&m.Message, most); err != nil {
			return failure.Translate(err, aboutMessage(m))
		}
	}
	if r.later, err = publishDelay(v, x, m); err != nil {
		return err
	}
	headers := m.Headers
	if h, known := v.VHost(m.VHost); known && h.ImportDeaths && message.ImportDeaths(&m.Message) { // G-11
		headers = m.Headers.Merged(message.DeathHeaders(&m.Message))
	}
	r.routing = catalog.Publication{
		Keys: m.RoutingKeys, Headers: headers, Properties: &m.Properties,
		Chance: m.chance(), Local: r.b.leads, Alternate: r.b.alternate,
	}
	r.uids, err = v.Route(m.VHost, m.Exchange, &r.routing, r.uids[:0])
	return failure.Translate(err, aboutMessage(m))
}

// restore takes off what prepare has added to the message.
func (r *routed) restore(m *Publish) {
	m.Expiration, m.Headers = r.given.expiration, r.given.headers
	m.RoutingKeys, m.BCCCount = nil, 0
	m.Deaths, m.FirstDeath, m.LastDeath = nil, message.DeathOrigin{}, message.DeathOrigin{}
	r.given, r.routing = given{}, catalog.Publication{}
}

// confirm makes sure that a message has no queue: if the view was too old to decide that, it waits
// for a newer view and routes again (EX-16). found is the first outcome, an error or nil. If no
// newer view comes, confirm returns Unavailable.
func (r *routed) confirm(ctx context.Context, m *Publish, found error) error {
	if r.b.catalog.Fresh() {
		return found
	}
	if err := r.b.catalog.AwaitFresh(ctx); err != nil {
		return serving.ErrStale(err)
	}
	r.restore(m)
	return r.prepare(ctx, m)
}

// permitPublish checks that the sender may publish to the exchange, and returns what else limits
// the message.
func (b *Broker) permitPublish(v *catalog.View, m *Publish) (permission.SendRight, error) {
	s := m.Sender
	if s == nil {
		if b.cfg.Authenticate {
			return permission.SendRight{}, identity.Unauthenticated("nobody is logged in; send user and password, or a token")
		}
		return permission.SendRight{Any: true}, nil
	}
	return s.mayPublish(v, m.VHost, m.Exchange)
}

// release drops what belongs to the message but keeps the slices.
func (r *routed) release() {
	clear(r.keys)
	r.exchange = nil
}

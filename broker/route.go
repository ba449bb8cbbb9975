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
	msg      message.Message   // in its stored form
	ttlMs    int64
	later    quorumq.Delay
	keys     []string
	routing  catalog.Publication
	uids     []id.QueueUID // the queues that it is routed to
}

// prepare checks the message in the order of PUB-1, fills msg, and routes.
func (r *routed) prepare(ctx context.Context, m *Publish) error {
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
	r.msg.Properties, r.msg.Headers = m.Properties, m.Headers
	r.msg.Exchange, r.msg.Body = m.Exchange, m.Body
	if r.ttlMs, err = expiration(&r.msg); err != nil {
		about := aboutMessage(m)
		about.Problem = failure.ProblemExpiration
		return failure.Translate(err, about)
	}
	if r.keys, err = routingKeys(&r.msg, m.RoutingKey, r.keys); err != nil {
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
	if !withinLimits(&r.msg) {
		if err := message.CheckLimits(&r.msg, most); err != nil {
			return failure.Translate(err, aboutMessage(m))
		}
	}
	if r.later, err = publishDelay(v, x, m, &r.msg); err != nil {
		return err
	}
	headers := r.msg.Headers
	if h, known := v.VHost(m.VHost); known && h.ImportDeaths && message.ImportDeaths(&r.msg) { // G-11
		headers = r.msg.Headers.Merged(message.DeathHeaders(&r.msg))
	}
	r.routing = catalog.Publication{
		Keys: r.msg.RoutingKeys, Headers: headers, Properties: &r.msg.Properties,
		Chance: m.chance(), Local: r.b.leads, Alternate: r.b.alternate,
	}
	r.uids, err = v.Route(m.VHost, m.Exchange, &r.routing, r.uids[:0])
	return failure.Translate(err, aboutMessage(m))
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

// release drops the message but keeps the slices.
func (r *routed) release() {
	clear(r.keys)
	r.exchange = nil
	r.msg, r.routing = message.Message{}, catalog.Publication{}
}

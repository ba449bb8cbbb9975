package deadletter

import (
	"fmt"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// routeMoved finds where a moved message goes (G-13). It has no new death, so there are no cycles. It stays as it
// was, except that exchange and keys change if it is moved to an exchange.
func (k *resolver) routeMoved(d *quorumq.Discarded, m *message.Message) {
	r, v, rec := &k.way, k.view, k.rec
	r.msg = *m
	switch d.To.Kind {
	case quorumq.ToQueue:
		k.toQueue(d.To.Name)
		return
	case quorumq.ToExchange:
		r.msg.Exchange = d.To.Name
		if d.To.HasKey {
			replaceKeys(&r.msg, d.To.Key)
		}
	case quorumq.ToOrigin, quorumq.ToOriginExchange:
		if len(m.Deaths) == 0 {
			r.cause, r.text = CauseUnroutable, "the message has not died anywhere: it has no queue to go back to"
			return
		}
		asBefore(&r.msg)
		if d.To.Kind == quorumq.ToOrigin {
			k.toQueue(m.FirstDeath.Queue)
			return
		}
	default:
		r.cause, r.text = CauseUnroutable, "the message is moved to what this version does not know"
		return
	}
	if _, ok := v.Exchange(rec.VHost, r.msg.Exchange); !ok {
		r.cause, r.key = CauseNoExchange, r.msg.Exchange
		r.text = fmt.Sprintf("exchange %q, to which messages are moved, does not exist; declare it", r.msg.Exchange)
		return
	}
	if !k.targets(r.msg.Exchange, d) {
		r.cause, r.key = CauseUnroutable, r.msg.Exchange+"\x00"+r.msg.PrimaryKey()
		r.text = fmt.Sprintf("exchange %q routes key %q to no queue; bind one", r.msg.Exchange, r.msg.PrimaryKey())
	}
}

// toQueue sends the message straight to a queue.
func (k *resolver) toQueue(name string) {
	q, ok := k.view.Queue(k.rec.VHost, name)
	if !ok {
		k.way.cause, k.way.key = CauseNoQueue, name
		k.way.text = fmt.Sprintf("queue %q, where messages are moved to, does not exist; declare it", name)
		return
	}
	if q.DrainDeleting > 0 {
		k.way.cause, k.way.key = CauseNoQueue, name
		k.way.text = fmt.Sprintf("queue %q, where messages are moved to, is being deleted; declare it again when it is gone", name)
		return
	}
	k.way.targets = append(k.way.targets, q.UID)
}

// asBefore gives a dead letter the exchange and keys that it had before it died first. The
// first death may be forgotten, as those of MaxDeaths queues are kept: then the keys stay.
func asBefore(m *message.Message) {
	m.Exchange = m.FirstDeath.Exchange
	for i := range m.Deaths {
		if d := &m.Deaths[i]; d.Queue == m.FirstDeath.Queue && d.Reason == m.FirstDeath.Reason {
			m.RoutingKeys, m.BCCCount = d.RoutingKeys, 0
		}
	}
}

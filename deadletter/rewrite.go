package deadletter

import (
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Discard describes how a message left its queue, and its dead-letter exchange and key.
type Discard struct {
	Queue         string // the queue that discarded it
	Reason        quorumq.Reason
	NowMs         int64  // time of the discard, milliseconds since the Unix epoch
	DeliveryCount uint32 // what the counts had reached in that queue (DL-38)
	AcquiredCount uint32
	Exchange      string // the queue's dead-letter exchange; "": the default one
	RoutingKey    string // the queue's dead-letter routing key, when HasRoutingKey
	HasRoutingKey bool
}

// Rewrite returns the message as it is published to the dead-letter exchange (DL-30 to DL-39). It
// never changes m; the result shares unchanged parts with m, for example the body. The delivery
// counts start at 0 in the target, and the newest death has the old ones (DL-38).
//
// At most message.MaxDeaths deaths are kept: the oldest is dropped, FirstDeath stays.
func Rewrite(m *message.Message, d Discard) message.Message {
	out := *m
	reason := d.Reason.String()
	out.LastDeath = message.DeathOrigin{Queue: d.Queue, Reason: reason, Exchange: m.Exchange}
	if len(m.Deaths) == 0 {
		out.FirstDeath = out.LastDeath
		// DL-32, MSG-6: what a client put there was never ours, and ends here.
		out.Headers = m.Headers.Without(message.DeathHeaderNames()...)
	}
	out.Deaths = recordDeath(m, reason, d)

	// DL-35: an expiration of its own must not strike again downstream.
	out.Expiration = ""
	out.Has &^= message.HasExpiration

	out.Exchange = d.Exchange
	if d.HasRoutingKey {
		replaceKeys(&out, d.RoutingKey)
	}
	return out
}

// replaceKeys gives a message one key for all that it has (DL-36, DL-37, D-1): CC would name
// queues that it no longer goes to, and no key is a BCC one any more.
func replaceKeys(m *message.Message, key string) {
	m.RoutingKeys, m.BCCCount = []string{key}, 0
	m.Headers = m.Headers.Without("CC", "BCC")
}

// recordDeath returns the new list of deaths, newest first, one per queue and reason
// (DL-30).
func recordDeath(m *message.Message, reason string, d Discard) []message.Death {
	at := 0
	for at < len(m.Deaths) && (m.Deaths[at].Queue != d.Queue || m.Deaths[at].Reason != reason) {
		at++
	}
	var death message.Death
	if at < len(m.Deaths) {
		death = m.Deaths[at]
	} else {
		death = message.Death{
			Queue: d.Queue, Reason: reason, FirstTimeMs: d.NowMs,
			Exchange: m.Exchange, RoutingKeys: m.VisibleKeys(), // DL-31
		}
		// DL-31, D-10: whatever the reason. The broker stores only what it could parse.
		if m.Expiration != "" {
			if ms, err := message.ParseExpiration(m.Expiration); err == nil {
				death.TTLMs, death.HasTTL = ms, true
			}
		}
	}
	death.Count = message.AddDeaths(death.Count, 1)
	death.LastTimeMs = d.NowMs
	death.DeliveryCount, death.AcquiredCount = d.DeliveryCount, d.AcquiredCount

	deaths := make([]message.Death, 1, len(m.Deaths)+1)
	deaths[0] = death
	deaths = append(deaths, m.Deaths[:at]...)
	if at < len(m.Deaths) {
		deaths = append(deaths, m.Deaths[at+1:]...)
	}
	if len(deaths) > message.MaxDeaths {
		deaths = deaths[:message.MaxDeaths]
	}
	return deaths
}

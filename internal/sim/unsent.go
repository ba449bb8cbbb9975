package sim

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/quorumq"
)

// unsent returns what a consumer holds and its client never got, if the queue may be notified.
func (l *ledger) unsent(k quorumq.ConsumerKey) quorumq.Unsent {
	u := quorumq.Unsent{Tag: k.Tag}
	if l.config.Rules < quorumq.RulesThird {
		return u
	}
	for _, m := range slices.Sorted(maps.Keys(l.held[k])) {
		if !l.gifts[giftKey{k, m}].handed {
			u.Ranges = append(u.Ranges, quorumq.MsgIDRange{First: m, Last: m})
		}
	}
	return u
}

// cameBack records what a session held that never left: it did not fail (DEL-8).
func (l *ledger) cameBack(c *quorumq.SessionClosed) {
	k := quorumq.ConsumerKey{SessionKey: c.Session, Tag: c.Unsent.Tag}
	for _, r := range c.Unsent.Ranges {
		for m := r.First; m <= r.Last; m++ {
			h := l.held[k][m]
			if h == nil {
				continue
			}
			if l.gifts[giftKey{k, m}].handed {
				l.broke("DEL-8", "consumer %v got number %d, which came back as unsent", k, m)
			}
			delete(l.held[k], m)
			l.back(h, false)
		}
	}
}

package deadletter

import (
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Cyclic reports whether handing a message on to the queue target would let it go round for
// ever without anybody touching it (DL-40). deaths is the list after the current death
// was recorded, newest first, as Rewrite returns it. A message that a consumer rejected
// is never cyclic; one that came back to target is, unless somewhere on the way round a
// consumer rejected it.
//
// It is one of two guards; see Hops for the other.
func Cyclic(deaths []message.Death, target string) bool {
	rejected := quorumq.ReasonRejected.String()
	for i := range deaths {
		if deaths[i].Reason == rejected {
			return false
		}
		if deaths[i].Queue == target {
			return true
		}
	}
	return false
}

// Hops counts how often a message has died (DL-43). Of a message with deaths by more pairs of
// queue and reason than message.MaxDeaths only the newest count.
func Hops(deaths []message.Death) uint64 { return message.CountDeaths(deaths) }

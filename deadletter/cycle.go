package deadletter

import (
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Cyclic reports whether forwarding a message to the queue target would close a cycle in which no
// consumer touches the message (DL-40). deaths is the list including the current death, newest
// first, as Rewrite returns it. A message that a consumer rejected is never cyclic; one that
// returns to target is, unless a consumer rejected it somewhere in the cycle.
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

// Hops returns how often a message has died (DL-43). If the message has more than message.MaxDeaths
// deaths, only the newest count.
func Hops(deaths []message.Death) uint64 { return message.CountDeaths(deaths) }

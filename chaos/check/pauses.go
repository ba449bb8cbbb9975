package check

import (
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// HealedLimit is for what clients see after all was healed: where faults overlapped or hit a
// majority, and of clients that the fault may have left without a node that they know.
const HealedLimit = 5 * time.Second

// MembersChange is the class of faults that hit a node while a queue has no more members that vote than it
// needs: it may stand still until they are healed.
const MembersChange = "members change"

// healedLimit returns HealedLimit on the run's machine.
func healedLimit(s history.Settings) time.Duration {
	return time.Duration(float64(HealedLimit) * max(1, s.MaxPause))
}

// PauseLimits returns the longest pauses of publishers by class of fault: by one fault, that hits
// a minority, on a quiet machine. History.Settings.MaxPause multiplies them.
func PauseLimits() map[string]time.Duration {
	return map[string]time.Duration{
		MembersChange: HealedLimit, "recovered": HealedLimit, "killed": time.Second, "power cut": time.Second, "restarted": time.Second, "transferred": time.Second,
		"damaged": time.Second, "wiped": time.Second, "scaled": time.Second,
		"paused": time.Second, "cut off": time.Second, "one way": 1500 * time.Millisecond, "flapping": 2 * time.Second,
		"disk frozen": 1200 * time.Millisecond, "disk full": 1500 * time.Millisecond, "disk failed": 1500 * time.Millisecond,
	}
}

// silent reports whether nodes that are hit fall silent without ending their connections. A client
// of a protocol that has one connection learns of it by its own heartbeats alone.
func silent(class string) bool {
	switch class {
	case "paused", "cut off", "one way", "flapping", "disk frozen":
		return true
	default:
		return false
	}
}

// apart reports whether something besides the fault can stop the publishers of a class.
func apart(client string) bool { return strings.Contains(client, " ") }

// oneByOne reports whether a fault hits its nodes one after another, so never a majority at once.
func oneByOne(class string) bool { return class == "restarted" || class == "transferred" }

// limitOf returns what is judged for a class of clients after a fault: its pause, or with healed the time until it
// continues after the healing. 0: nothing.
func limitOf(s history.Settings, r *Recovery, client string) (limit time.Duration, healed bool) {
	limit, is := PauseLimits()[r.Fault.Class]
	if s.MaxPause <= 0 || !is && !r.Beside {
		return 0, false
	}
	majority := r.Fault.Class == MembersChange || r.Fault.Short || len(r.Fault.Nodes) > (len(s.Nodes)-1)/2 && !oneByOne(r.Fault.Class)
	alone := strings.HasSuffix(client, "/one") || apart(client) || strings.HasPrefix(client, "amqp/") && silent(r.Fault.Class)
	if r.Beside || majority || alone {
		limit, healed = HealedLimit, true
	}
	return time.Duration(float64(limit) * s.MaxPause), healed
}

// goesOn: publishers of each class of clients pause no longer than the limits (G11). Without limits
// in the history's settings nothing is judged.
func goesOn(l *ledger) Guarantee {
	g := Guarantee{Name: "clients go on", Rule: "G11"}
	for _, r := range l.recoveries {
		for _, c := range r.Clients {
			if c.Limit == 0 || c.Healed && r.Healed < 0 {
				continue
			}
			g.Checked++
			at := Finding{At: r.Fault.At, Queue: r.Fault.Queue}
			what := r.Fault.Note + " of " + strings.Join(r.Fault.Nodes, ", ")
			switch {
			case !c.Healed && c.Pause > c.Limit:
				g.Broken = append(g.Broken, at.because("%s paused for %v at %s; the limit for %q is %v", c.Class, rounded(c.Pause), what, r.Fault.Class, rounded(c.Limit)))
			case c.Healed && c.After < 0:
				g.Broken = append(g.Broken, at.because("%s did not go on after %s was healed", c.Class, what))
			case c.Healed && c.After > c.Limit:
				g.Broken = append(g.Broken, at.because("%s went on %v after %s was healed; the limit is %v", c.Class, rounded(c.After), what, rounded(c.Limit)))
			}
		}
	}
	return g
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

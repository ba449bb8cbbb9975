package pulse

import "time"

// TCP doubles its wait before each attempt to send again. On a network that works only now and then, all its attempts
// can fall into moments at which nothing passes, and a connection stands still for seconds, although packets pass in
// between. Heartbeats have a separate connection, which sends at even intervals and so detects this. Then a new
// connection carries data at once, and the stalled one is given up.

const (
	// worthwhile is how long the system's wait before its next attempt must still be for a new connection to be
	// faster.
	worthwhile = 100 * time.Millisecond
	// clockGrain is the most by which the times that the system keeps of a connection are inexact.
	clockGrain = 10 * time.Millisecond
)

// retransmission is what the system knows of data on a connection that the other end has not acknowledged.
type retransmission struct {
	waits bool          // there is some
	fails int           // attempts to send it again, after which nothing was acknowledged
	since time.Duration // since the last attempt
	until time.Duration // from that attempt to the next one
}

// stuck reports whether a new connection would carry data sooner. A heartbeat that was sent so long ago as proven says
// has arrived, and its answer too: had the last attempt come since then, it might only need its time.
func (r retransmission) stuck(proven time.Duration) bool {
	return r.waits && r.fails > 0 && r.since-proven >= clockGrain && r.until-r.since >= worthwhile
}

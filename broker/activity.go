package broker

// Activity reports whether a consumer is the one that receives (SAC-4).
type Activity uint8

// The activities: of a queue without a single active consumer, or not known yet; the one
// that receives; one that waits.
const (
	Shared Activity = iota
	Active
	Waiting
)

// String returns how operators see it.
func (a Activity) String() string { return [...]string{"shared", "active", "waiting"}[a] }

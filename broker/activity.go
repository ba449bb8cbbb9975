package broker

// Activity is the role of a consumer at a queue with a single active consumer (SAC-4).
type Activity uint8

// Shared: the queue has no single active consumer, or the role is not known yet. Active: this
// consumer gets the messages. Waiting: another one gets them.
const (
	Shared Activity = iota
	Active
	Waiting
)

// String returns the name that operators see.
func (a Activity) String() string { return [...]string{"shared", "active", "waiting"}[a] }

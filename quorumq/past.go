package quorumq

// versionPast is the machine version that added messages with a past.
const versionPast = 6

// Past is the history of a message that was in a queue before and is restored from a backup: the message continues
// from there. If the queue knows the message already, by its producer, both are ignored.
type Past struct {
	// At is when it was enqueued, so that its TTL does not start again (TTL-1); a time after the command's counts as
	// the command's.
	At Time
	// DeliveryCount and AcquiredCount are as in Delivery. A message that was acquired is returned, and so
	// redelivered (DEL-1).
	DeliveryCount, AcquiredCount uint32
	// Reason, if not 0, means that it was discarded and waits for its forwarding; To, if not nil, that it was moved
	// and is on its way there. At most one of them is set, and then there is no delay.
	Reason Reason
	To     *Destination
}

// Flags of a message's past.
const (
	flagPast     = 1 << iota // a past follows
	flagPastAway             // it is on its way to a destination, which follows
	pastFlags    = flagPast | flagPastAway
)

// putPast writes what decodePast reads.
func putPast(b []byte, p *Past) []byte {
	if p == nil {
		return append(b, 0)
	}
	flags := byte(flagPast)
	if p.To != nil {
		flags |= flagPastAway
	}
	b = putU(append(b, flags), uint64(p.At))
	b = putU(putU(b, uint64(p.DeliveryCount)), uint64(p.AcquiredCount))
	b = append(b, byte(p.Reason))
	if p.To != nil {
		b = putDestination(b, *p.To)
	}
	return b
}

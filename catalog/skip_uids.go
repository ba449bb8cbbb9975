package catalog

import "github.com/quorate/quorate/id"

// SkipQueueUIDs makes the UIDs of new queues continue above all that the cluster may ever have given out. It is for a
// recovery: the log with which the catalog continues may lack queues that were declared. Nodes may still have members
// of those, and other queues remember the dead letters that came from them (DL-25), all by their UIDs. A repeat skips
// more. Not before VersionSealed.
type SkipQueueUIDs struct{}

func (*SkipQueueUIDs) kind() commandKind { return kindSkipQueueUIDs }

// append adds nothing: the command has no fields.
func (*SkipQueueUIDs) append(b []byte) []byte { return b }

const (
	// lostUIDs is how many of its newest UIDs a catalog may have lost without a clock's help.
	lostUIDs = 1 << 32
	// lastTimedUID bounds the time that is made a UID: numbers below 2^53 are exact in JSON.
	lastTimedUID = 1 << 43
)

// skipQueueUIDs raises the next UID above the number of milliseconds since the Unix epoch: fewer queues than that were
// declared. If the clock is wrong, more than enough UIDs are passed over.
func (v *View) skipQueueUIDs() (Reply, *Error) {
	timed := id.QueueUID(min(max(v.now, 0), lastTimedUID))
	v.nextUID = max(v.nextUID, min(v.nextUID, 1<<62)+lostUIDs, timed)
	return Reply{}, nil
}

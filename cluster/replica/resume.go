package replica

import (
	"sync"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// resume is a request for what a consumer holds above an id; see Host.Held.
type resume struct {
	consumer quorumq.ConsumerKey
	after    quorumq.MsgID
	room     int64
	once     sync.Once
	done     func(traffic.Holding, error)
	waits    bool // it has found a message that cannot be read; belongs to the worker that runs the mailbox
}

// moment is what a consumer holds at one time. All that was assigned to it before is in front of the request in the
// mailbox, and all that is assigned later is behind it.
type moment struct {
	led   *Led // nil: this member did not lead
	known bool // the queue has the consumer
	held  []quorumq.Delivery
	last  quorumq.MsgID
}

// answer calls done; only the first call does.
func (r *resume) answer(x traffic.Holding, err error) { r.once.Do(func() { r.done(x, err) }) }

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
}

// answer calls done; only the first call does.
func (r *resume) answer(x traffic.Holding, err error) { r.once.Do(func() { r.done(x, err) }) }

package grpcapi

import (
	"context"
	"sync"
	"time"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// keptTime is how long a message that a quota holds back keeps its room while others lack it; while its own user or
// connection does, receiveTime.
const keptTime = scarceTime

// kept is the room of the large message that a call is about to publish: it takes room until alarms and quotas let it
// through, as it takes memory. A nil kept keeps nothing. The goroutine that reads and the one that ends the call may use
// it.
type kept struct {
	b *budget

	mu      sync.Mutex // guards what follows
	release func()     // nil: there is no such message
	since   time.Time
	ended   bool
}

type keptKey struct{}

// keeping has the messages of a call that publishes keep their room until letGo. end gives back what is left.
func (s *Server) keeping(ctx context.Context, method string) (with context.Context, end func()) {
	if method != brokerv1.Broker_PublishOne_FullMethodName && method != brokerv1.Broker_Publish_FullMethodName {
		return ctx, func() {}
	}
	k := &kept{b: s.receiving}
	return context.WithValue(ctx, keptKey{}, k), k.end
}

// keptOf returns the room of a call's message; nil: it keeps none.
func keptOf(ctx context.Context) *kept {
	k, _ := ctx.Value(keptKey{}).(*kept)
	return k
}

// keep takes the room of a message that was read.
func (k *kept) keep(a *asked, release func()) {
	if k == nil {
		return
	}
	k.mu.Lock()
	ended := k.ended
	if !ended {
		k.b.holds(a, 1)
		k.release = func() {
			k.b.holds(a, -1)
			release()
		}
		k.since = time.Now()
	}
	k.mu.Unlock()
	if ended {
		release()
	}
}

// letGo gives the room of a message back, if it has any.
func (k *kept) letGo() {
	if k == nil {
		return
	}
	k.mu.Lock()
	release := k.release
	k.release = nil
	k.mu.Unlock()
	if release != nil {
		release()
	}
}

// end gives back what is left, and keeps nothing more.
func (k *kept) end() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.letGo()
}

// inTheWay reports whether others have lacked the room for long enough that the message must not wait any more.
func (k *kept) inTheWay() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	holds, age := k.release != nil, time.Since(k.since)
	k.mu.Unlock()
	return holds && (age >= keptTime && k.b.crowded() || age >= receiveTime && k.b.node.Scarce())
}

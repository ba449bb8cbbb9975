package grpcapi

import (
	"context"
	"sync"
	"time"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// keptTime is how long a message that a quota holds back may keep its room while others lack it.
// While only its own user or connection lacks room, it may keep it for receiveTime.
const keptTime = scarceTime

// kept is the room of a large message that a call is about to publish. The message keeps its room
// until alarms and quotas let it through, because it keeps its memory. A nil kept keeps nothing. The
// goroutine that reads and the one that ends the call may both use it.
type kept struct {
	b *budget

	mu      sync.Mutex // guards what follows
	release func()     // nil: there is no such message
	since   time.Time
	ended   bool
}

// keptKey is the key of a call's kept room in its context; its own type keeps it unique.
type keptKey struct{}

// keeping makes the messages of a publishing call keep their room until letGo. end gives back the
// rest.
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

// keep takes over the room of a message that was read.
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

// letGo gives back the room of a message, if it has any.
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

// end gives back the rest and keeps nothing from then on.
func (k *kept) end() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.letGo()
}

// inTheWay reports whether others have lacked the room for so long that the message may wait no
// longer.
func (k *kept) inTheWay() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	holds, age := k.release != nil, time.Since(k.since)
	k.mu.Unlock()
	return holds && (age >= keptTime && k.b.crowded() || age >= receiveTime && k.b.node.Scarce())
}

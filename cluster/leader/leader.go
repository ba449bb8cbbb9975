// Package leader asks the leader of a queue: how the queue stands, what messages it has, and to let another
// member lead. Whoever leads is found by asking the members, again while there is an election.
package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Members are this node's members of queues.
type Members interface {
	// LeaderOf returns a queue's leader as the member here knows it; "": it does not.
	LeaderOf(q id.QueueUID) (id.NodeID, bool)
	// AwaitLeader returns a channel that is closed when the member here learns of another leader than it knew. end
	// must be called when nobody reads it any longer.
	AwaitLeader(q id.QueueUID) (learned <-chan struct{}, end func())
}

// Transport connects to the other nodes.
type Transport interface {
	Connected(n id.NodeID) (id.Epoch, bool)
	Client(n id.NodeID) (nodev1.NodeClient, error)
}

// Own answers for this node what others answer.
type Own interface {
	QueueStatus(ctx context.Context, r *nodev1.QueueStatusRequest) (*nodev1.QueueStatusResponse, error)
	PeekQueue(ctx context.Context, r *nodev1.PeekQueueRequest) (*nodev1.PeekQueueResponse, error)
	TransferLeadership(ctx context.Context, r *nodev1.TransferLeadershipRequest) (*nodev1.TransferLeadershipResponse, error)
	Export(ctx context.Context, r *nodev1.ExportQueueRequest, emit func(block []byte) (spare []byte, err error)) error
}

// Config are the parts that Leaders are made of. All are needed.
type Config struct {
	Node      id.NodeID // this one
	View      func() *catalog.View
	Members   Members
	Transport Transport
	Own       Own
	// CommandTimeout bounds a command without a leader (RE-5); not above 0: nothing does.
	CommandTimeout time.Duration
	// Life ends when this node stops.
	Life context.Context
}

// Leaders are those of all queues. All methods may be called concurrently.
type Leaders struct{ cfg Config }

// New returns the leaders of all queues.
func New(cfg Config) *Leaders { return &Leaders{cfg: cfg} }

const (
	// firstRetry is the first wait of at; later ones double up to lastRetry. While nobody knows a leader they double up to
	// lastLook where this node has a member, because that learns of one: ten thousand callers that wait for leaders must
	// not keep those from being elected.
	firstRetry = 5 * time.Millisecond
	lastRetry  = 50 * time.Millisecond
	lastLook   = time.Second
)

// at tries f at the node that should lead a queue, and again elsewhere as f's answer names
// another or fails, until ctx ends.
func (l *Leaders) at(ctx context.Context, q id.QueueUID, f func(id.NodeID) (id.NodeID, error)) error {
	var hint id.NodeID
	var last error
	pause := firstRetry
	for attempt := 0; ; attempt++ {
		r, ok := l.cfg.View().QueueByUID(q)
		if !ok {
			return fmt.Errorf("%w: queue %s is not in this node's view of the catalog", traffic.ErrNoSuchQueue, q)
		}
		to := hint
		if to == "" {
			to, _ = l.cfg.Members.LeaderOf(q)
		}
		if to == "" {
			to = r.Members[attempt%len(r.Members)]
		}
		var err error
		if hint, err = f(to); err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // it says more than that time is up
		}
		if l.pause(ctx, r, hint, &pause) {
			hint = "" // who leads now is known
		}
		if ctx.Err() == nil {
			continue
		}
		if l.cfg.Life.Err() != nil {
			return fmt.Errorf("%w: queue %q", traffic.ErrClosed, r.Name)
		}
		if last == nil {
			last = errors.New("none of its members has answered")
		}
		return fmt.Errorf("%w: queue %q (%s) in vhost %q: check that a majority of its members %q runs: %w",
			traffic.ErrUnavailable, r.Name, q, r.VHost, r.Members, last)
	}
}

// pause waits for *next before the next attempt, and sets how long to wait the time after that. It returns true if this
// node's member has learned of another leader, for which it waits no longer. hint is the leader that was named, if any.
func (l *Leaders) pause(ctx context.Context, r *catalog.QueueRecord, hint id.NodeID, next *time.Duration) (learned bool) {
	most := lastRetry
	var event <-chan struct{} // nil where this node has no member
	if r.Holds(l.cfg.Node) {
		var end func()
		event, end = l.cfg.Members.AwaitLeader(r.UID)
		defer end()
		if known, _ := l.cfg.Members.LeaderOf(r.UID); known == "" && hint == "" {
			most = lastLook
		}
	}
	t := time.NewTimer(min(*next, most))
	defer t.Stop()
	*next = min(2**next, most)
	select {
	case <-t.C:
	case <-event:
		*next = firstRetry // it may not answer at once
		return true
	case <-ctx.Done():
	}
	return false
}

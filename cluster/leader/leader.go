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
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Members are this node's members of queues.
type Members interface {
	// LeaderOf returns a queue's leader as the member here knows it; "": it does not.
	LeaderOf(q id.QueueUID) (id.NodeID, bool)
	// AwaitLeader returns a channel that is closed when the member here learns of another leader than it knew. end must be
	// called when nobody reads it any more.
	AwaitLeader(q id.QueueUID) (learned <-chan struct{}, end func())
}

// Transport leads to the other nodes.
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
	// firstRetry is the first wait of at; later ones double up to lastRetry, or where this node has a member, which is notified
	// of a new leader, up to lastLook: ten thousand that wait for their leaders must not keep those from being elected.
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
		if learned, most := l.pause(ctx, r, to, pause); learned {
			hint, pause = "", firstRetry // who leads now may not answer at once
		} else {
			pause = min(2*pause, most)
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

// pause waits for d before the next attempt, because asked could not answer, but not any more once this node's member
// learns of another leader. most is how long the next pause may be.
func (l *Leaders) pause(ctx context.Context, r *catalog.QueueRecord, asked id.NodeID, d time.Duration) (learned bool, most time.Duration) {
	if !r.Holds(l.cfg.Node) {
		_ = wait.For(ctx, d)
		return false, lastRetry
	}
	event, end := l.cfg.Members.AwaitLeader(r.UID)
	defer end()
	if known, _ := l.cfg.Members.LeaderOf(r.UID); known != "" && known != asked {
		d = firstRetry // it learned of it before
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-event:
		learned = true
	case <-ctx.Done():
	}
	return learned, lastLook
}

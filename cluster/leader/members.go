package leader

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Member is one node's copy of a queue as it sees itself.
type Member struct {
	Node id.NodeID
	// Group is nil if the node did not answer.
	Group *nodev1.GroupStatus
	// Trouble is why the member has stopped, or why its node did not answer.
	Trouble string
}

// AllMembers asks all members of a queue at once how they stand, with digests of their states if
// that is asked for. It changes nothing in their logs. Members that hibernate are woken.
func (l *Leaders) AllMembers(ctx context.Context, q id.QueueUID, digests bool) []Member {
	ctx, cancel := wait.Within(ctx, l.cfg.Life, l.cfg.CommandTimeout)
	defer cancel()
	r, ok := l.cfg.View().QueueByUID(q)
	if !ok {
		return nil
	}
	out := make([]Member, len(r.Members))
	var asking sync.WaitGroup
	for i, n := range r.Members {
		asking.Go(func() {
			m := Member{Node: n}
			s, err := l.askAwake(ctx, n, &nodev1.QueueStatusRequest{Queue: uint64(q), Digest: digests, MemberOnly: true})
			if err != nil {
				m.Trouble = err.Error()
			} else {
				m.Group, m.Trouble = s.GetGroup(), s.GetGroup().GetFailed()
			}
			out[i] = m
		})
	}
	asking.Wait()
	return out
}

// askAwake is askStatus, and waits for a member that hibernates, which the question wakes.
func (l *Leaders) askAwake(ctx context.Context, n id.NodeID, request *nodev1.QueueStatusRequest) (*nodev1.QueueStatusResponse, error) {
	kept := &nodev1.QueueStatusRequest{Queue: request.GetQueue(), Kept: true, MemberOnly: true}
	for {
		s, err := l.askStatus(ctx, n, request)
		if status.Code(err) != codes.NotFound {
			return s, err
		}
		// The member that hibernates answers this, and so does one that has opened meanwhile.
		if _, none := l.askStatus(ctx, n, kept); none != nil || wait.For(ctx, wakeTick) != nil {
			return s, err
		}
	}
}

// wakeTick is the time between two questions to a member that wakes.
const wakeTick = 20 * time.Millisecond

// State returns leader, follower or candidate; "": the node did not answer.
func (m Member) State() string { return strings.ToLower(m.Group.GetState()) }

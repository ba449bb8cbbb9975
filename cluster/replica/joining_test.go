package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

// otherNode is a node that a joining member may ask for its base.
type otherNode struct {
	nodev1.NodeClient

	older bool // it knows no bases
	leads bool
	base  raftfsm.Base
}

func (o otherNode) JoinBase(context.Context, *nodev1.JoinBaseRequest, ...grpc.CallOption) (*nodev1.JoinBaseResponse, error) {
	if o.older {
		return nil, status.Error(codes.Unimplemented, "unknown method")
	}
	return &nodev1.JoinBaseResponse{NotLeader: !o.leads, Term: o.base.Term, Index: o.base.Index}, nil
}

func (o otherNode) QueueStatus(context.Context, *nodev1.QueueStatusRequest, ...grpc.CallOption) (*nodev1.QueueStatusResponse, error) {
	if o.leads {
		return &nodev1.QueueStatusResponse{Leader: "c"}, nil
	}
	return &nodev1.QueueStatusResponse{Leader: "somebody"}, nil
}

// otherNodes are those that answer, in place of connections.
type otherNodes struct {
	Transport
	mu    sync.Mutex
	nodes map[id.NodeID]otherNode
}

func (o *otherNodes) Client(n id.NodeID) (nodev1.NodeClient, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if node, up := o.nodes[n]; up {
		return node, nil
	}
	return nil, errors.New("no connection")
}

func (o *otherNodes) set(nodes map[id.NodeID]otherNode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nodes = nodes
}

// A member that joins is not opened before a leader has said how far its group is; then it keeps that, over restarts too. The
// leader may be of an older build, which does not: then it begins without. Meanwhile the node says what it waits for, and
// is ready.
func TestJoinNeedsBase(t *testing.T) {
	t.Parallel()
	want := raftfsm.Base{Term: 9, Index: 30}
	for _, row := range []struct {
		name  string
		nodes map[id.NodeID]otherNode
		base  raftfsm.Base
		waits bool
	}{
		{"the leader gives it", map[id.NodeID]otherNode{"b": {}, "c": {leads: true, base: want}}, want, false},
		{"an older leader", map[id.NodeID]otherNode{"b": {}, "c": {older: true, leads: true}}, raftfsm.Base{}, false},
		{"an older follower", map[id.NodeID]otherNode{"b": {}, "c": {older: true}}, want, true},
		{"no leader", map[id.NodeID]otherNode{"b": {}, "c": {}}, want, true},
		{"no connection", nil, want, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var others otherNodes
			edit := func(c *Config) { others.Transport, c.Transport = c.Transport, &others }
			h := newTestHost(t, edit)
			others.set(row.nodes)
			for i, n := range []id.NodeID{"b", "c"} {
				h.mustPropose(&catalog.RegisterNode{ID: n, Address: fmt.Sprint("127.0.0.1:", i+2), Epoch: 1, Store: id.StoreID(n), Fresh: true, FirstEpoch: 1})
			}
			uid := h.mustPropose(&catalog.DeclareQueue{
				VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"b", "c"}, Leader: "b",
			}).UID
			change := h.mustPropose(&catalog.BeginMemberChange{UID: uid, Join: "a"}).Index
			if row.waits {
				h.poll("it says what it waits for", func() error {
					if err := h.NotHosted(uid); !strings.Contains(err.Error(), "no leader has said how far the queue is") {
						return err
					}
					return nil
				})
				h.poll("it is ready", func() error { return h.Ready(h.views.View().Index()) })
				if h.Member(uid) != nil || h.storage.HasQueue(uid) {
					t.Error("it has begun without a base")
				}
				others.set(map[id.NodeID]otherNode{"c": {leads: true, base: want}})
			}
			opened := func(when string) {
				t.Helper()
				h.poll("its member is open "+when, func() error {
					if h.Member(uid) == nil {
						return errWaiting
					}
					return nil
				})
				q := h.Member(uid)
				_, term := q.Group().Leader()
				if _, stored, err := h.cfg.Dir.Joined(uid); err != nil || stored != row.base || q.Joined() != change ||
					term != row.base.Term || q.Group().Behind() != (row.base.Term > 0) {
					t.Errorf("%s: stored %+v, %v, change %d, term %d, behind %v", when, stored, err, q.Joined(), term, q.Group().Behind())
				}
			}
			opened("at first")
			others.set(nil)
			h.stop()
			h.start(edit)
			opened("after a restart")
		})
	}
}

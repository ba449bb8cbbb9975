package cluster

import (
	"context"
	"time"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

const (
	// heartbeatEvery is the time between two heartbeats of a pair of nodes, by which liveness judges.
	heartbeatEvery = 250 * time.Millisecond
	// pingEvery is the time between two pings on the connection of the streams, which show that it
	// is still passed on when heartbeats are.
	pingEvery = 10 * time.Second
)

// lateMux gives liveness the mux, which exists before liveness uses it.
type lateMux struct{ c *Cluster }

// Silent implements liveness.Transport.
func (l lateMux) Silent(n id.NodeID) (time.Duration, bool) { return l.c.mux.Silent(n) }

// Overdue implements liveness.Transport.
func (l lateMux) Overdue(n id.NodeID) time.Duration { return l.c.mux.Overdue(n) }

// Say implements liveness.Transport.
func (l lateMux) Say() { l.c.mux.Say() }

// Client implements liveness.Transport.
func (l lateMux) Client(n id.NodeID) (nodev1.NodeClient, error) { return l.c.mux.Client(n) }

// dead reports whether gossip holds a node for dead.
func (c *Cluster) dead(n id.NodeID) bool {
	if c.members == nil {
		return false
	}
	for _, g := range c.gossip() {
		if g.ID == n {
			return !g.Alive
		}
	}
	return false
}

// Survey answers for this node's groups.
func (s calls) Survey(ctx context.Context, r *nodev1.SurveyRequest) (*nodev1.SurveyResponse, error) {
	s.c.host.WakeFor(ctx, r)
	return s.c.liveness.Survey(r), nil
}

// Hibernate closes this node's members of groups that a peer leads.
func (s calls) Hibernate(ctx context.Context, r *nodev1.HibernateRequest) (*nodev1.HibernateResponse, error) {
	return s.c.host.Hibernate(ctx, r)
}

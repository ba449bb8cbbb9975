package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/liveness"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// beatEvery is the time between two beats on a link, by which liveness judges.
const beatEvery = 100 * time.Millisecond

// links are what liveness looks at.
type links struct{ c *Cluster }

// Heard is of liveness.Links.
func (l links) Heard(n id.NodeID) (time.Time, bool) { return l.c.mux.Heard(n) }

// dead tells whether gossip holds a node for dead.
func (c *Cluster) dead(n id.NodeID) bool {
	for _, g := range c.gossip() {
		if g.ID == n {
			return !g.Alive
		}
	}
	return false
}

// survey is of liveness.Config.
func (c *Cluster) survey(ctx context.Context, to id.NodeID, groups []liveness.Surveyed) ([]liveness.Answer, error) {
	peer, err := c.mux.Client(to)
	if err != nil {
		return nil, err
	}
	r := &nodev1.SurveyRequest{Groups: make([]*nodev1.SurveyedGroup, len(groups))}
	for i, g := range groups {
		r.Groups[i] = &nodev1.SurveyedGroup{Group: uint64(g.Group), LastTerm: g.LastTerm, LastIndex: g.LastIndex}
	}
	w, err := peer.Survey(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("cluster: asking node %q about %d groups: %w", to, len(groups), err)
	}
	answers := make([]liveness.Answer, len(w.GetAnswers()))
	for i, a := range w.GetAnswers() {
		answers[i] = liveness.Answer{
			Votes: a.GetVotes(), LastTerm: a.GetLastTerm(), LastIndex: a.GetLastIndex(),
			Leads: a.GetLeads(), Content: a.GetContent(), Campaigning: a.GetCampaigning(),
		}
	}
	return answers, nil
}

// Survey answers a peer's survey. A node whose groups have timers of their own knows
// nothing of them.
func (s calls) Survey(_ context.Context, r *nodev1.SurveyRequest) (*nodev1.SurveyResponse, error) {
	w := &nodev1.SurveyResponse{Answers: make([]*nodev1.SurveyAnswer, len(r.GetGroups()))}
	groups := make([]liveness.Surveyed, len(r.GetGroups()))
	for i, g := range r.GetGroups() {
		groups[i] = liveness.Surveyed{Group: id.GroupID(g.GetGroup()), LastTerm: g.GetLastTerm(), LastIndex: g.GetLastIndex()}
		w.Answers[i] = &nodev1.SurveyAnswer{}
	}
	if s.c.liveness == nil {
		return w, nil
	}
	for i, a := range s.c.liveness.Answer(groups) {
		w.Answers[i] = &nodev1.SurveyAnswer{
			Votes: a.Votes, LastTerm: a.LastTerm, LastIndex: a.LastIndex,
			Leads: a.Leads, Content: a.Content, Campaigning: a.Campaigning,
		}
	}
	return w, nil
}

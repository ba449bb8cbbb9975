package liveness

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// call asks a peer about groups; the answers are in the same order.
func (m *Manager) call(ctx context.Context, to id.NodeID, groups []Surveyed) ([]Answer, error) {
	peer, err := m.config.Transport.Client(to)
	if err != nil {
		return nil, err
	}
	r := &nodev1.SurveyRequest{Groups: make([]*nodev1.SurveyedGroup, len(groups))}
	for i, g := range groups {
		r.Groups[i] = &nodev1.SurveyedGroup{Group: uint64(g.Group), LastTerm: g.LastTerm, LastIndex: g.LastIndex}
	}
	w, err := peer.Survey(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("liveness: asking node %q about %d groups: %w", to, len(groups), err)
	}
	if len(w.GetAnswers()) != len(groups) {
		return nil, fmt.Errorf("liveness: node %q gave %d answers about %d groups", to, len(w.GetAnswers()), len(groups))
	}
	answers := make([]Answer, len(groups))
	for i, a := range w.GetAnswers() {
		answers[i] = Answer{
			Votes: a.GetVotes(), LastTerm: a.GetLastTerm(), LastIndex: a.GetLastIndex(),
			Leads: a.GetLeads(), HasLiveLeader: a.GetContent(), Campaigning: a.GetCampaigning(),
		}
	}
	return answers, nil
}

// Survey answers a peer's call.
func (m *Manager) Survey(r *nodev1.SurveyRequest) *nodev1.SurveyResponse {
	groups := make([]Surveyed, len(r.GetGroups()))
	for i, g := range r.GetGroups() {
		groups[i] = Surveyed{Group: id.GroupID(g.GetGroup()), LastTerm: g.GetLastTerm(), LastIndex: g.GetLastIndex()}
	}
	w := &nodev1.SurveyResponse{Answers: make([]*nodev1.SurveyAnswer, len(groups))}
	for i, a := range m.Answer(groups) {
		w.Answers[i] = &nodev1.SurveyAnswer{
			Votes: a.Votes, LastTerm: a.LastTerm, LastIndex: a.LastIndex,
			Leads: a.Leads, Content: a.HasLiveLeader, Campaigning: a.Campaigning,
		}
	}
	return w
}

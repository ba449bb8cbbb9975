package rebalance

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

func TestDecide(t *testing.T) {
	now := time.Now()
	none := map[string]string{}
	approve := func(value string) map[string]string { return map[string]string{v1alpha1.AnnotationApprove: value} }
	cancelled := map[string]string{v1alpha1.AnnotationCancel: "true", v1alpha1.AnnotationApprove: "true"}
	refresh := map[string]string{v1alpha1.AnnotationRefresh: "true"}
	for _, c := range []struct {
		what        string
		phase       v1alpha1.RebalancePhase
		annotations map[string]string
		age         time.Duration // of the proposal
		operation   bool
		generation  int64
		want        step
	}{
		{"a new object", "", none, 0, false, 1, propose},
		{"approved in advance", "", approve("true"), 0, false, 1, propose},
		{"cancelled before there is a proposal", v1alpha1.RebalancePending, cancelled, 0, false, 1, giveUp},
		{"waits for approval", v1alpha1.RebalanceProposalReady, none, time.Minute, false, 1, rest},
		{"waits for long", v1alpha1.RebalanceProposalReady, none, proposalAge, false, 1, propose},
		{"approved", v1alpha1.RebalanceProposalReady, approve("true"), time.Minute, false, 1, start},
		{"approved by its hash", v1alpha1.RebalanceProposalReady, approve("abc"), time.Minute, false, 1, start},
		{"another one is approved", v1alpha1.RebalanceProposalReady, approve("old"), time.Minute, false, 1, misplaced},
		{"cancelled and approved", v1alpha1.RebalanceProposalReady, cancelled, time.Minute, false, 1, giveUp},
		{"asked for anew", v1alpha1.RebalanceProposalReady, refresh, time.Minute, false, 1, propose},
		{"another specification", v1alpha1.RebalanceProposalReady, approve("true"), time.Minute, false, 2, propose},
		{"under way", v1alpha1.RebalanceRebalancing, none, time.Hour, true, 1, follow},
		{"under way, and cancelled", v1alpha1.RebalanceRebalancing, cancelled, time.Hour, true, 1, stop},
		{"killed before the operation was recorded", v1alpha1.RebalanceRebalancing, none, time.Minute, false, 1, resume},
		{"done", v1alpha1.RebalanceDone, approve("true"), time.Hour, true, 1, rest},
		{"done, and asked for anew", v1alpha1.RebalanceDone, refresh, time.Hour, true, 1, propose},
		{"failed", v1alpha1.RebalanceFailed, none, time.Hour, true, 1, rest},
		{"cancelled, and changed", v1alpha1.RebalanceCancelled, none, time.Hour, false, 2, propose},
	} {
		o := &v1alpha1.QuorateRebalance{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations, Generation: c.generation}}
		o.Status.Phase, o.Status.ObservedGeneration = c.phase, 1
		o.Status.Proposal = &v1alpha1.RebalanceProposal{Hash: "abc", MadeAt: metav1.NewTime(now.Add(-c.age))}
		if c.operation {
			o.Status.Operation = &v1alpha1.OperationStatus{ID: "n.1.1"}
		}
		if got := decide(o, now); got != c.want {
			t.Errorf("%s: step %d, want %d", c.what, got, c.want)
		}
	}
}

// An operation that another object of the cluster has begun is not taken for the one that was begun for an object before the
// operator was killed. Objects of other clusters, and what the object itself has, say nothing of that.
func TestInterrupted(t *testing.T) {
	of := func(namespace, name, inNamespace, cluster, operation string) v1alpha1.QuorateRebalance {
		o := v1alpha1.QuorateRebalance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		o.Spec.Cluster = v1alpha1.ClusterReference{Namespace: inNamespace, Name: cluster}
		if operation != "" {
			o.Status.Operation = &v1alpha1.OperationStatus{ID: operation}
		}
		return o
	}
	own := of("shop", "even", "", "main", "")
	running := []client.Operation{{ID: "n.1.1", Kind: "grow-queues"}, {ID: "n.1.2", Kind: kindRebalance}, {ID: "n.1.3", Kind: kindRebalance}}
	for what, c := range map[string]struct {
		others []v1alpha1.QuorateRebalance
		want   string
	}{
		"it is alone":               {nil, "n.1.2"},
		"another has the first":     {[]v1alpha1.QuorateRebalance{of("shop", "other", "", "main", "n.1.2")}, "n.1.3"},
		"of another namespace":      {[]v1alpha1.QuorateRebalance{of("team", "even", "shop", "main", "n.1.2")}, "n.1.3"},
		"others have both":          {[]v1alpha1.QuorateRebalance{of("shop", "a", "", "main", "n.1.2"), of("shop", "b", "shop", "main", "n.1.3")}, ""},
		"of another cluster":        {[]v1alpha1.QuorateRebalance{of("shop", "other", "", "test", "n.1.2"), of("team", "other", "", "main", "n.1.2")}, "n.1.2"},
		"another has none":          {[]v1alpha1.QuorateRebalance{of("shop", "other", "", "main", "")}, "n.1.2"},
		"it was recorded meanwhile": {[]v1alpha1.QuorateRebalance{of("shop", "even", "", "main", "n.1.2")}, "n.1.2"},
	} {
		got := ""
		if op := interrupted(&own, append(c.others, own), running); op != nil {
			got = op.ID
		}
		if got != c.want {
			t.Errorf("%s: operation %q, want %q", what, got, c.want)
		}
	}
}

// The same moves have the same hash, in whatever order and whenever they were planned; others have another.
func TestProposalOf(t *testing.T) {
	now := time.Now()
	a := proposalOf(client.StartedOperation{Plan: []string{"x", "y"}, PlanTotal: 2}, now)
	b := proposalOf(client.StartedOperation{Plan: []string{"y", "x"}, PlanTotal: 2}, now.Add(time.Hour))
	c := proposalOf(client.StartedOperation{Plan: []string{"x", "y"}, PlanTotal: 3}, now)
	if a.Hash != b.Hash || a.Hash == c.Hash || len(a.Hash) != hashChars {
		t.Errorf("%+v, %+v, %+v", a, b, c)
	}
	long := proposalOf(client.StartedOperation{Plan: make([]string, 1000), PlanTotal: 5000}, now)
	if len(long.Lines) != maxLines || long.Moves != 5000 {
		t.Errorf("%d lines, %d moves", len(long.Lines), long.Moves)
	}
}

package rebalance

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

const (
	// maxLines bounds the lines of a proposal in a status.
	maxLines = 100
	// hashChars is the length of a proposal's hash.
	hashChars = 12
	// proposalAge is when a proposal that waits for approval is compared with the cluster again.
	proposalAge = 5 * time.Minute
	// progressWait is how often the progress of an operation is checked.
	progressWait = 2 * time.Second
)

// proposalOf turns the broker's plan into a proposal. Plans of the same moves have the same hash, whenever they were
// made.
func proposalOf(plan client.StartedOperation, now time.Time) *v1alpha1.RebalanceProposal {
	sum := sha256.Sum256([]byte(strconv.FormatUint(plan.PlanTotal, 10) + "\n" + strings.Join(slices.Sorted(slices.Values(plan.Plan)), "\n")))
	return &v1alpha1.RebalanceProposal{
		Hash: hex.EncodeToString(sum[:])[:hashChars], Moves: int64(plan.PlanTotal),
		Lines: plan.Plan[:min(len(plan.Plan), maxLines)], MadeAt: metav1.NewTime(now.Truncate(time.Second)),
	}
}

// wish is what a person or the specification asks for next.
type wish uint8

const (
	wait    wish = iota
	again        // make a new proposal
	begin        // begin what was proposed
	cancel       // end it
	another      // an approval of another proposal than the present one
)

// wishOf reads annotations and specification. A cancellation counts before an approval.
func wishOf(o *v1alpha1.QuorateRebalance) wish {
	a, s := o.Annotations, &o.Status
	switch approved := a[v1alpha1.AnnotationApprove]; {
	case a[v1alpha1.AnnotationCancel] == "true":
		return cancel
	case a[v1alpha1.AnnotationRefresh] == "true", s.ObservedGeneration != o.Generation:
		return again
	case s.Phase != v1alpha1.RebalanceProposalReady || s.Proposal == nil:
		return wait
	case approved == "true", approved == s.Proposal.Hash, o.Spec.Approval == "Automatic":
		return begin
	case approved != "":
		return another
	}
	return wait
}

// step is what to do about a rebalance.
type step uint8

const (
	rest      step = iota // nothing, until an annotation or the specification changes
	propose               // ask for a plan
	start                 // begin, if the plan is still the approved one
	follow                // look at the operation
	resume                // find the operation that was begun before the operator was killed, or begin it
	stop                  // cancel the operation
	giveUp                // end without an operation
	misplaced             // say that the approval is of another proposal
)

// decide returns the next step. It needs only the object: what the status says may be behind the cluster, and each step
// copes with that.
func decide(o *v1alpha1.QuorateRebalance, now time.Time) step {
	s, w := &o.Status, wishOf(o)
	switch s.Phase {
	case v1alpha1.RebalanceRebalancing:
		switch {
		case s.Operation == nil:
			return resume
		case w == cancel:
			return stop
		}
		return follow
	case v1alpha1.RebalanceProposalReady:
		switch {
		case w == cancel:
			return giveUp
		case w == begin:
			return start
		case w == another:
			return misplaced
		case w == again, s.Proposal == nil, now.Sub(s.Proposal.MadeAt.Time) >= proposalAge:
			return propose
		}
		return rest
	case v1alpha1.RebalanceDone, v1alpha1.RebalanceCancelled, v1alpha1.RebalanceFailed:
		if w == again {
			return propose
		}
		return rest
	case v1alpha1.RebalancePending:
	}
	if w == cancel {
		return giveUp
	}
	return propose
}

// requestOf is what to ask the broker for.
func requestOf(o *v1alpha1.QuorateRebalance, dryRun bool) client.RebalanceQueuesRequest {
	return client.RebalanceQueuesRequest{
		Queues: client.QueueFilter{VHost: o.Spec.Queues.VHost, Pattern: o.Spec.Queues.Pattern},
		DryRun: dryRun, LeadersOnly: o.Spec.Scope == v1alpha1.RebalanceLeaders,
	}
}

// kindRebalance is how the broker names the operation.
const kindRebalance = "rebalance-queues"

// interrupted returns the operation that was begun for an object before that was recorded: one that runs, and that no other
// object of the cluster has. To follow that of another object would report its end for this one, and a cancellation would end it.
func interrupted(o *v1alpha1.QuorateRebalance, all []v1alpha1.QuorateRebalance, running []client.Operation) *client.Operation {
	others := map[string]bool{}
	for i := range all {
		other := &all[i]
		if op := other.Status.Operation; op != nil && clusterOf(other) == clusterOf(o) && kube.ObjectKeyFromObject(other) != kube.ObjectKeyFromObject(o) {
			others[op.ID] = true
		}
	}
	for i := range running {
		if op := &running[i]; op.Kind == kindRebalance && !others[op.ID] {
			return op
		}
	}
	return nil
}

// clusterOf returns the name of an object's cluster.
func clusterOf(o *v1alpha1.QuorateRebalance) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(o.Spec.Cluster.Namespace, o.Namespace), Name: o.Spec.Cluster.Name}
}

// ended returns the phase of an operation that has ended.
func ended(s client.OperationState) (v1alpha1.RebalancePhase, bool) {
	switch s {
	case client.OperationDone:
		return v1alpha1.RebalanceDone, true
	case client.OperationFailed:
		return v1alpha1.RebalanceFailed, true
	case client.OperationCancelled:
		return v1alpha1.RebalanceCancelled, true
	case client.OperationRunning:
	}
	return "", false
}

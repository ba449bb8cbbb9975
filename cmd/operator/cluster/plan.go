package cluster

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// Action is what the operator does in one step.
type Action int

// The actions. Each is safe to repeat, and the operator may die before, during or after it.
const (
	// Nothing is left to do.
	Nothing Action = iota
	// Wait for something that comes by itself.
	Wait
	// Ask the broker the question, and plan again with the answer.
	Ask
	// CreateSet makes the StatefulSet with Replicas.
	CreateSet
	// ChangeSet gives the StatefulSet the wanted template of pods; no pod changes by that.
	ChangeSet
	// OrphanSet deletes the StatefulSet and leaves its pods, so that it can be made with larger volumes.
	OrphanSet
	// SetReplicas raises the StatefulSet's replicas, or lowers them by one.
	SetReplicas
	// TakePod deletes a pod, which comes back with the StatefulSet's template.
	TakePod
	// GrowClaim asks for a larger volume.
	GrowClaim
	// GiveUpClaim marks the claim of a node that the cluster has forgotten.
	GiveUpClaim
	// UnmarkClaim takes the mark of GiveUpClaim off the claim of a node that the cluster counts on.
	UnmarkClaim
	// DeleteClaim deletes a claim that was given up.
	DeleteClaim
	// MarkLeaving notes on a claim that its node is about to be removed.
	MarkLeaving
	// RemoveNode makes the broker move everything off a node and forget it.
	RemoveNode
	// CancelRemoval ends the removal of a node that is wanted again.
	CancelRemoval
	// Undrain lets a node serve again whose removal was cancelled.
	Undrain
	// ForgetNode makes the broker forget a node that has neither pod nor volume.
	ForgetNode
	// ReplaceNode makes the broker give up what a node whose volume is lost had stored.
	ReplaceNode
)

// Step is the next thing to do.
type Step struct {
	Do       Action
	Node     int // of actions about one
	Replicas int // of CreateSet and SetReplicas
	Question Question
	// Why is a sentence for people.
	Why string
}

// Block is something that the operator would do, and may not. It becomes a condition.
type Block struct {
	Condition string
	Reason    string
	Message   string
}

// Plan decides the next step, and reports what is blocked. It only computes. While a step is blocked, others that do
// not depend on it continue.
//
// What always holds: the StatefulSet loses a replica only when the broker has forgotten the node; a pod that
// runs is taken only while all others are ready; a claim is deleted only after it was given up; a pod is not taken
// while its claim is being deleted.
func Plan(s *Seen) (Step, []Block) {
	p := planner{Seen: s}
	for _, stage := range []func() (Step, bool){
		p.handsOff, p.tooOld, p.create, p.awaitSet, p.mend, p.reach, p.replace, p.returned, p.leftovers, p.grow, p.up, p.down, p.claims, p.change, p.roll,
	} {
		if step, is := stage(); is {
			return step, p.blocks
		}
	}
	return Step{Do: Nothing, Why: "the cluster is as it should be"}, p.blocks
}

// planner is one decision.
type planner struct {
	*Seen

	blocks []Block
}

func (p *planner) block(condition, reason, message string) {
	p.blocks = append(p.blocks, Block{condition, reason, message})
}

// ask returns the answer to a question, or the step that asks it.
func (p *planner) ask(about Topic, node int) (answer Answer, step Step, known bool) {
	q := Question{about, node}
	answer, known = p.Answers[q]
	return answer, Step{Do: Ask, Node: node, Question: q, Why: "asking the broker"}, known
}

func wait(format string, args ...any) (Step, bool) {
	return Step{Do: Wait, Why: fmt.Sprintf(format, args...)}, true
}

// handsOff leaves everything to the person who has asked for that: what nobody could know, such as that volumes which are
// there will never be whole again, is not to be worked against.
func (p *planner) handsOff() (Step, bool) {
	if p.HandsOff == "" {
		return Step{}, false
	}
	p.block(v1alpha1.ConditionHandsOff, "Asked", "the annotation "+v1alpha1.AnnotationHandsOff+
		" keeps the operator from changing anything, take it away when it may go on: "+p.HandsOff)
	return wait("hands off: %s", p.HandsOff)
}

// tooOld reports why nodes do not get the requested image. Everything else continues with the image that they keep.
func (p *planner) tooOld() (Step, bool) {
	if p.TooOld != "" {
		p.block(v1alpha1.ConditionUpgradeBlocked, reasonTooOld, p.TooOld)
	}
	return Step{}, false
}

// create makes the StatefulSet. If there are pods or claims, it takes up all of them, because a majority of them
// may be needed: what is too much leaves later, in good order. It stops before a claim that was given up.
func (p *planner) create() (Step, bool) {
	if p.Set != nil {
		return Step{}, false
	}
	if p.Lacks != "" {
		return wait("the StatefulSet is not made: %s", p.Lacks)
	}
	n := max(p.highestPod(), p.highestClaim()) + 1
	for n < p.Wanted && !p.Claims[n].GivenUp && !p.Claims[n].Going {
		n++
	}
	n = max(n, 1)
	return Step{Do: CreateSet, Replicas: n, Why: fmt.Sprintf("making the StatefulSet with %d nodes", n)}, true
}

// awaitSet waits until what is seen of the StatefulSet is of its latest change.
func (p *planner) awaitSet() (Step, bool) {
	switch {
	case p.Set.Going:
		return wait("the StatefulSet is being deleted")
	case !p.Set.Settled:
		return wait("Kubernetes takes up the last change")
	}
	return Step{}, false
}

// mend replaces a pod that cannot start and would get another template: nothing is lost by that, whatever state
// the others are in, and a template that was wrong for all pods is corrected for all.
func (p *planner) mend() (Step, bool) {
	for i := p.highestPod(); i >= 0; i-- {
		pod, is := p.Pods[i]
		switch {
		case !is || !pod.Broken || pod.Going || i >= p.Set.Replicas:
		case p.Set.Template != p.Template && p.held() == "":
			return p.changeSet()
		case !pod.Current && !p.claimGoing(i):
			return Step{Do: TakePod, Node: i, Why: fmt.Sprintf("replacing the pod of node %d, which cannot start as it is", i)}, true
		}
	}
	return Step{}, false
}

// reach stops everything else while the broker cannot be asked: nothing is safe then. But where no node serves, nothing
// is worse after a restart, and a template that was never right is corrected. Nodes that somebody took from the
// StatefulSet come back, because they may be missing for a majority: what is too much leaves later, in good order.
func (p *planner) reach() (Step, bool) {
	if p.Broker != nil {
		return Step{}, false
	}
	for _, pod := range p.Pods {
		if pod.Ready || pod.Serves || pod.Going {
			return wait("the broker cannot be asked: %s", p.Unasked)
		}
	}
	if top := max(p.highestPod(), p.highestClaim()); top >= p.Set.Replicas {
		return Step{Do: SetReplicas, Replicas: top + 1, Why: fmt.Sprintf(
			"going from %d to %d nodes: none serves, and there are volumes of more", p.Set.Replicas, top+1)}, true
	}
	if step, is := p.founders(); is {
		return step, true
	}
	if p.Set.Template != p.Template && p.held() == "" {
		return p.changeSet()
	}
	for i := p.highestPod(); i >= 0; i-- {
		if pod, is := p.Pods[i]; is && !pod.Current && p.held() == "" && i < p.Set.Replicas && !p.claimGoing(i) {
			return Step{Do: TakePod, Node: i, Why: fmt.Sprintf("restarting node %d with its new template: no node serves", i)}, true
		}
	}
	return wait("the broker cannot be asked: %s", p.Unasked)
}

// founders adds the nodes that a cluster lacks which was never founded: it is founded by as many as are wanted, and nobody can
// ask a broker before. They were asked for meanwhile, or former claims were in the way when the StatefulSet was made.
func (p *planner) founders() (Step, bool) {
	if p.Founded || p.Lacks != "" || p.Set.Replicas >= p.Wanted {
		return Step{}, false
	}
	for i := p.Set.Replicas; i < p.Wanted; i++ {
		switch c, is := p.Claims[i]; {
		case c.Going:
			return wait("the former volume claim of node %d is being deleted", i)
		case is:
			return Step{}, false
		}
	}
	return Step{Do: SetReplicas, Replicas: p.Wanted, Why: fmt.Sprintf("going from %d to %d nodes, which found the cluster", p.Set.Replicas, p.Wanted)}, true
}

// Reasons for which nodes stay as they are.
const (
	reasonPaused     = "Paused"
	reasonLacking    = "ObjectsBlocked"
	reasonClaimGoing = "ClaimGoing"
	reasonClaimLeft  = "ClaimLeft"
)

// claimGoing reports, and says, that a pod must not be taken because somebody has deleted the claim of its volume:
// Kubernetes keeps both only until the pod ends, and nobody can take that deletion back.
func (p *planner) claimGoing(node int) bool {
	if !p.Claims[node].Going {
		return false
	}
	b := Block{v1alpha1.ConditionUpgradeBlocked, reasonClaimGoing, fmt.Sprintf("node %d keeps its pod: its volume claim is being deleted, and its volume "+
		"would go with the pod. If the other nodes have all that is on it, delete the pod: the node comes back with an empty volume. "+
		"docs/kubernetes-operator.md says how to keep what is on it", node)}
	if !slices.Contains(p.blocks, b) { // more than one stage may want to take the pod
		p.blocks = append(p.blocks, b)
	}
	return true
}

// held is the reason for which no node may get another template now; "": they may.
func (p *planner) held() string {
	switch {
	case p.Paused:
		return reasonPaused
	case p.Lacks != "":
		return reasonLacking
	}
	return ""
}

// hold reports that nodes stay as they are, and why.
func (p *planner) hold(what string) {
	if p.Paused {
		p.block(v1alpha1.ConditionUpgradeBlocked, reasonPaused, "spec.upgrade.paused keeps "+what+" as they are")
		return
	}
	p.block(v1alpha1.ConditionUpgradeBlocked, reasonLacking, what+" stay as they are: without this they could not start again: "+p.Lacks)
}

// changeSet is the step that changes the template.
func (p *planner) changeSet() (Step, bool) {
	return Step{Do: ChangeSet, Why: "changing the template of pods"}, true
}

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// replace lets a node in that came with an empty volume, if nothing is lost by giving up what it had stored. One that
// comes with other data is left alone: to give up the right volume would not let the wrong one in. A node whose pod is
// ready serves, and is refused only by a view that is behind.
func (p *planner) replace() (Step, bool) {
	for _, i := range slices.Sorted(maps.Keys(p.Broker.Nodes)) {
		if pod, is := p.Pods[i]; p.Broker.Nodes[i] != refused || !is || pod.Going || pod.Ready {
			continue
		}
		if p.ReplaceByHand {
			p.block(v1alpha1.ConditionReplaceBlocked, "Manual", fmt.Sprintf(
				"node %d came with a volume that the cluster does not know; spec.lostVolumes leaves it to you: see quoratectl nodes replace", i))
			continue
		}
		answer, ask, known := p.ask(MayReplace, i)
		switch {
		case !known:
			return ask, true
		case answer == "":
			return Step{Do: ReplaceNode, Node: i, Why: fmt.Sprintf("giving up what node %d had stored: its volume is lost", i)}, true
		case answer == vacant:
			continue // it comes in by itself
		case answer == otherData:
			p.block(v1alpha1.ConditionReplaceBlocked, "OtherData", fmt.Sprintf("node %d came with a volume that the cluster does not know, "+
				"and that is not empty: give it the one that it had, or delete its claim and its pod, so that it comes with an empty one", i))
			continue
		}
		p.block(v1alpha1.ConditionReplaceBlocked, "Refused", string(answer))
	}
	return Step{}, false
}

// returned takes care of a node that was to go and is wanted again.
func (p *planner) returned() (Step, bool) {
	for _, i := range slices.Sorted(maps.Keys(p.Pods)) {
		switch {
		case i >= p.Wanted || !p.Broker.has(i):
		case p.Broker.Removal == i:
			return Step{Do: CancelRemoval, Node: i, Why: fmt.Sprintf("cancelling the removal of node %d, which is wanted again", i)}, true
		case p.Claims[i].Leaving:
			return Step{Do: Undrain, Node: i, Why: fmt.Sprintf("letting node %d serve again", i)}, true
		case p.Claims[i].GivenUp:
			return Step{Do: UnmarkClaim, Node: i, Why: fmt.Sprintf("the cluster counts on node %d: its volume claim is not given up", i)}, true
		}
	}
	return Step{}, false
}

// leftovers takes care of nodes that the cluster counts on and that have no pod. With a volume they come back, so
// that they can leave in good order, and without one they come if they are wanted; else they are forgotten, if no queue
// loses anything by that.
func (p *planner) leftovers() (Step, bool) {
	for _, i := range slices.Sorted(maps.Keys(p.Broker.Nodes)) {
		if _, is := p.Pods[i]; is || i < p.Set.Replicas || p.Broker.Removal == i {
			continue
		}
		switch c, is := p.Claims[i]; {
		case is && c.Going:
			return wait("the volume claim of node %d is being deleted", i)
		case is && !c.GivenUp:
			return Step{Do: SetReplicas, Replicas: i + 1, Why: fmt.Sprintf("bringing node %d back, which the cluster counts on and whose volume is there", i)}, true
		case i < p.Wanted:
			return Step{Do: SetReplicas, Replicas: i + 1, Why: fmt.Sprintf("bringing node %d back, which is wanted and whose volume is lost", i)}, true
		case p.Broker.Removal >= 0:
			return wait("the broker moves everything off node %d", p.Broker.Removal)
		case p.Broker.Busy != "":
			return wait("the broker is busy: %s", p.Broker.Busy)
		}
		answer, ask, known := p.ask(MayForget, i)
		switch {
		case !known:
			return ask, true
		case answer == "":
			return Step{Do: ForgetNode, Node: i, Why: fmt.Sprintf("having the cluster forget node %d, which has neither pod nor volume", i)}, true
		}
		p.block(v1alpha1.ConditionScaleDownBlocked, "Refused", string(answer))
	}
	return Step{}, false
}

// grow makes volumes larger, and then the StatefulSet's template of them, which only a new StatefulSet can have. What
// cannot grow holds nothing else up.
func (p *planner) grow() (Step, bool) {
	var stuck, tried, larger []string
	why := ""
	for _, i := range slices.Sorted(maps.Keys(p.Claims)) {
		switch c := p.Claims[i]; {
		case i >= p.Set.Replicas || c.Going || c.SizeBytes == p.SizeBytes:
		case c.SizeBytes > p.SizeBytes:
			larger = append(larger, fmt.Sprint(i))
		case c.Refused != "":
			tried, why = append(tried, fmt.Sprint(i)), c.Refused
		case c.Growable:
			return Step{Do: GrowClaim, Node: i, Why: fmt.Sprintf("asking for a larger volume of node %d", i)}, true
		default:
			stuck = append(stuck, fmt.Sprint(i))
		}
	}
	if len(stuck) > 0 {
		p.block(v1alpha1.ConditionStorageBlocked, "NotExpandable", "the storage class does not let the volumes of nodes "+strings.Join(stuck, ", ")+
			" grow: replace the nodes one by one with larger volumes, see docs/kubernetes-operator.md, or set spec.storage.size in a new cluster")
	}
	if len(tried) > 0 {
		p.block(v1alpha1.ConditionStorageBlocked, "Refused", "Kubernetes does not let the volumes of nodes "+strings.Join(tried, ", ")+
			" grow, and is asked again: "+why)
	}
	if len(larger) > 0 {
		p.block(v1alpha1.ConditionStorageBlocked, "CannotShrink", "the volumes of nodes "+strings.Join(larger, ", ")+
			" are larger than spec.storage.size, and Kubernetes does not shrink them: ask for the size that they have")
	}
	smaller := p.Set.SizeBytes > p.SizeBytes && len(larger) == 0                                                                  // a size that was taken back
	if (p.Set.SizeBytes < p.SizeBytes || smaller) && p.Set.Template == p.Template && p.Lacks == "" && !p.leaving() && p.whole() { // the new one has the wanted template
		return Step{Do: OrphanSet, Why: "making the StatefulSet anew, with volumes of another size and the same pods"}, true
	}
	return Step{}, false
}

// whole reports whether each node of the StatefulSet has a pod and a claim that stay: the number of nodes that a new
// StatefulSet begins with is seen from those.
func (p *planner) whole() bool {
	for i := range p.Set.Replicas {
		pod, is := p.Pods[i]
		if c, has := p.Claims[i]; !is || pod.Going || !has || c.Going {
			return false
		}
	}
	return true
}

// leaving reports whether the removal of a node has begun and is not finished: without its StatefulSet its pod would be
// taken for one that is needed.
func (p *planner) leaving() bool {
	for i, c := range p.Claims {
		if c.Leaving && i < p.Set.Replicas {
			return true
		}
	}
	return false
}

// up adds nodes. A claim that was left by a node of that ordinal is in the way: its data is of a node that
// the broker does not take back.
func (p *planner) up() (Step, bool) {
	if p.Set.Replicas >= p.Wanted || p.goner() >= 0 {
		return Step{}, false
	}
	if p.Lacks != "" {
		p.block(v1alpha1.ConditionScaleUpBlocked, reasonLacking, "no node is added: without this it could not start: "+p.Lacks)
		return Step{}, false
	}
	to := p.Set.Replicas
	for ; to < p.Wanted; to++ {
		c, is := p.Claims[to]
		if !is || !c.Going && p.Broker.has(to) {
			continue
		}
		switch {
		case c.Going:
			return wait("the former volume claim of node %d is being deleted", to)
		case c.GivenUp:
			return Step{Do: DeleteClaim, Node: to, Why: fmt.Sprintf("deleting the former volume claim of node %d, which was removed: the broker never takes it back", to)}, true
		}
		p.block(v1alpha1.ConditionScaleUpBlocked, reasonClaimLeft, fmt.Sprintf(
			"node %d has a volume claim already, and the cluster does not know the node: delete the claim if nobody needs what is on it", to))
		break
	}
	if to == p.Set.Replicas {
		return Step{}, false
	}
	return Step{Do: SetReplicas, Replicas: to, Why: fmt.Sprintf("going from %d to %d nodes", p.Set.Replicas, to)}, true
}

// goner returns the highest ordinal if the cluster has forgotten its node after the operator began to remove it; it
// goes, even if it is wanted again meanwhile, because it can come back only with an empty volume. -1 otherwise.
func (p *planner) goner() int {
	top := p.Set.Replicas - 1
	if p.Claims[top].Leaving && !p.Broker.has(top) {
		return top
	}
	return -1
}

// down removes the node with the highest ordinal: first from the cluster, and only then its pod.
func (p *planner) down() (Step, bool) {
	top := p.Set.Replicas - 1
	switch {
	case p.Set.Replicas <= p.Wanted && p.goner() < 0:
		return Step{}, false
	case p.Broker.has(top):
		return p.remove(top)
	}
	if c, is := p.Claims[top]; is && !c.GivenUp && !c.Going {
		return Step{Do: GiveUpClaim, Node: top, Why: fmt.Sprintf("marking the volume claim of node %d as given up", top)}, true
	}
	return Step{Do: SetReplicas, Replicas: top, Why: fmt.Sprintf("ending the pod of node %d, which the cluster has forgotten", top)}, true
}

// remove makes the broker move everything off a node and forget it.
func (p *planner) remove(node int) (Step, bool) {
	pod, is := p.Pods[node]
	switch {
	case p.Broker.Removal >= 0:
		return wait("the broker moves everything off node %d", p.Broker.Removal)
	case p.Broker.Busy != "":
		return wait("the broker is busy: %s", p.Broker.Busy)
	case !is || pod.Going:
		return wait("the pod of node %d, which is to leave, is not there", node)
	}
	if other := p.notRunning(node); other != "" {
		p.block(v1alpha1.ConditionScaleDownBlocked, "NodesMissing", fmt.Sprintf("node %d leaves once all nodes are running; now %s", node, other))
		return Step{}, false
	}
	answer, ask, known := p.ask(MayRemove, node)
	switch {
	case !known:
		return ask, true
	case answer != "":
		p.block(v1alpha1.ConditionScaleDownBlocked, "Refused", string(answer))
		return Step{}, false
	case !p.Claims[node].Leaving:
		return Step{Do: MarkLeaving, Node: node, Why: fmt.Sprintf("about to remove node %d", node)}, true
	}
	return Step{Do: RemoveNode, Node: node, Why: fmt.Sprintf("having the broker move everything off node %d", node)}, true
}

// notRunning describes the nodes that do not serve; the one that leaves may drain.
func (p *planner) notRunning(leaving int) string {
	var all []string
	for _, i := range slices.Sorted(maps.Keys(p.Broker.Nodes)) {
		if state := p.Broker.Nodes[i]; state != running && (i != leaving || state != draining) {
			all = append(all, fmt.Sprintf("node %d is %s", i, state))
		}
	}
	return strings.Join(all, ", ")
}

// claims takes care of volume claims that no node needs.
func (p *planner) claims() (Step, bool) {
	var left []string
	for _, i := range slices.Sorted(maps.Keys(p.Claims)) {
		c := p.Claims[i]
		if _, is := p.Pods[i]; is || i < p.Set.Replicas || c.Going {
			continue
		}
		if p.Broker.has(i) {
			continue // leftovers takes care of it
		}
		if c.GivenUp && !p.KeepVolumes {
			return Step{Do: DeleteClaim, Node: i, Why: fmt.Sprintf("deleting the volume claim of node %d, which was removed", i)}, true
		}
		left = append(left, fmt.Sprint(i))
	}
	if len(left) > 0 {
		p.block(v1alpha1.ConditionVolumesLeft, "Retained", "the volume claims of nodes "+strings.Join(left, ", ")+
			", which are not in the cluster any more, are still there: delete them if nobody needs what is on them")
	}
	return Step{}, false
}

// change gives the StatefulSet the wanted template.
func (p *planner) change() (Step, bool) {
	switch {
	case p.Set.Template == p.Template:
		return Step{}, false
	case p.held() != "":
		p.hold("the nodes")
		return Step{}, false
	}
	return p.changeSet()
}

// roll takes one pod after the other to the StatefulSet's template: the one that is not ready first, else the
// highest. All others must be ready, Kubernetes must count them as available by its own clock, and the broker must agree.
func (p *planner) roll() (Step, bool) {
	next, unready := -1, []string{}
	for i := range p.Set.Replicas {
		pod, is := p.Pods[i]
		switch {
		case !is || pod.Going:
			return wait("the pod of node %d starts", i)
		case !pod.Ready:
			unready = append(unready, fmt.Sprint(i))
		}
		if !pod.Current && (next < 0 || p.Pods[next].Ready) {
			next = i
		}
	}
	switch {
	case next < 0 && len(unready) == 0:
		return p.unavailable(p.Set.Replicas)
	case next < 0, len(unready) > 1, len(unready) == 1 && unready[0] != fmt.Sprint(next):
		return wait("nodes %s are not ready", strings.Join(unready, ", "))
	case p.held() != "":
		p.hold(fmt.Sprintf("node %d and others", next))
		return Step{}, false
	case p.claimGoing(next):
		return Step{}, false
	}
	if step, is := p.unavailable(p.Set.Replicas - len(unready)); is {
		return step, true
	}
	return p.restart(next)
}

// restart takes the pod of a node if the broker has nothing against it.
func (p *planner) restart(node int) (Step, bool) {
	answer, ask, known := p.ask(MayTakeDown, node)
	switch {
	case !known:
		return ask, true
	case answer != "":
		p.block(v1alpha1.ConditionUpgradeBlocked, "NotSafe", fmt.Sprintf("node %d is not taken down: %s", node, answer))
		return Step{}, false
	}
	return Step{Do: TakePod, Node: node, Why: fmt.Sprintf("restarting node %d with its new template", node)}, true
}

// unavailable waits for Kubernetes to count as many pods as available. The operator's clock may run ahead of that by which
// pods are marked as ready, and what it caches of pods and StatefulSet is not of the same moment.
func (p *planner) unavailable(want int) (Step, bool) {
	if p.Set.Available >= want {
		return Step{}, false
	}
	return wait("%d of %d pods are available yet", p.Set.Available, p.Set.Replicas)
}

package cluster

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/internal/checks"
)

// blocking are the conditions that are there only while something is blocked.
var blocking = [...]string{ //nolint:gochecknoglobals // a constant in all but name
	v1alpha1.ConditionUpgradeBlocked, v1alpha1.ConditionScaleDownBlocked, v1alpha1.ConditionScaleUpBlocked, v1alpha1.ConditionReplaceBlocked,
	v1alpha1.ConditionStorageBlocked, v1alpha1.ConditionVolumesLeft, v1alpha1.ConditionUnreachable, v1alpha1.ConditionReplicasEven,
	v1alpha1.ConditionUpgradeUnfinalized, v1alpha1.ConditionObjectsBlocked, v1alpha1.ConditionHandsOff,
}

// report writes the status, if it has changed.
func (t *pass) report(ctx context.Context, step Step, failed error) error {
	before := t.q.Status.DeepCopy()
	s := &t.q.Status
	s.ObservedGeneration, s.Step, s.Operation = t.q.Generation, step.Why, t.operation
	s.Administrator, s.Selector = broker.AdministratorSecret(t.q), labels.SelectorFromSet(broker.Labels(t.q)).String()
	if t.seen != nil {
		t.reportNodes()
	}
	t.reportConditions(step, failed)
	if reflect.DeepEqual(before, s) {
		return nil
	}
	return t.Client.Status().Update(ctx, t.q)
}

// reportNodes lists the nodes: those that have a pod, and those that the cluster counts on.
func (t *pass) reportNodes() {
	s := &t.q.Status
	s.Nodes, s.ReadyReplicas, s.Replicas = nil, 0, 0
	if t.seen.Set != nil {
		s.Replicas = int32(t.seen.Set.Replicas)
	}
	all, details := map[int]bool{}, map[string]client.ClusterNode{}
	for i := range t.seen.Pods {
		all[i] = true
	}
	if t.broker != nil {
		s.FinalizedVersion = int64(t.broker.status.FinalizedVersion)
		for _, n := range t.broker.status.Nodes {
			if i, is := ordinal(n.ID, t.q.Name); is {
				all[i], details[n.ID] = true, n
			}
		}
	}
	builds := map[string]bool{}
	for _, i := range slices.Sorted(maps.Keys(all)) {
		pod, is := t.seen.Pods[i]
		n := v1alpha1.NodeStatus{Name: t.pod(i), Ready: pod.Ready && !pod.Going, Outdated: is && (!pod.Current || t.seen.Set != nil && t.seen.Set.Template != t.seen.Template)}
		if d, known := details[n.Name]; known {
			n.Version, n.State, n.Members, n.Leaders = d.Version, checks.NodeState(d), int32(d.Replicas), int32(d.Leaders)
			builds[d.Version] = true
		}
		if n.Ready {
			s.ReadyReplicas++
		}
		s.Nodes = append(s.Nodes, n)
	}
	if t.broker != nil {
		s.Version = ""
		for build := range builds {
			if len(builds) == 1 {
				s.Version = build
			}
		}
	}
}

// reportConditions says what is so, and what is blocked.
func (t *pass) reportConditions(step Step, failed error) {
	now := map[string]Block{}
	for _, b := range slices.Concat(t.refused(), t.blocks) {
		if first, is := now[b.Condition]; is {
			b.Reason, b.Message = first.Reason, first.Message+"; "+b.Message
		}
		now[b.Condition] = b
	}
	t.notes(now)
	t.reportBackups(now)
	for _, kind := range blocking {
		if b, is := now[kind]; is {
			t.warn(b)
			t.condition(kind, metav1.ConditionTrue, b.Reason, b.Message)
		} else {
			meta.RemoveStatusCondition(&t.q.Status.Conditions, kind)
		}
	}
	needs := slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(kind string) bool {
		return kind == v1alpha1.ConditionReplicasEven || kind == v1alpha1.ConditionVolumesLeft || kind == v1alpha1.ConditionUpgradeUnfinalized
	})
	stuck := t.stuckPods()
	switch {
	case failed != nil:
		t.condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, "Failed", failed.Error())
	case len(needs) > 0:
		t.condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, needs[0], now[needs[0]].Message)
	case stuck != "":
		t.condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, "PodsStuck", stuck)
	default:
		t.condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, "AsExpected", "nothing needs a person")
	}
	if step.Do == Nothing && failed == nil {
		t.condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Settled", "nothing is being changed")
	} else {
		t.condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, step.Do.String(), step.Why)
	}
	t.ready()
}

// stuckPods says which pods do not start, and why.
func (t *pass) stuckPods() string {
	if t.seen == nil {
		return ""
	}
	var all []string
	for _, i := range slices.Sorted(maps.Keys(t.seen.Pods)) {
		if p := t.seen.Pods[i]; p.Stuck != "" && !p.Going {
			all = append(all, fmt.Sprintf("pod %s does not start: %s", t.pod(i), p.Stuck))
		}
	}
	return someOf(all)
}

// ready says whether all nodes that are wanted serve. A StatefulSet that its controller has not looked at yet, as one that
// was made again for larger volumes, does not know how many are available.
func (t *pass) ready() {
	up, wanted := t.q.Status.ReadyReplicas, t.q.Spec.Replicas
	if t.seen != nil && t.seen.Set != nil && t.seen.Set.Settled {
		up = min(up, int32(t.seen.Set.Available))
	}
	last := meta.FindStatusCondition(t.q.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case t.seen == nil && last != nil && last.Status != metav1.ConditionFalse:
		t.condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, "NotLookedAt", "the cluster could not be looked at: see the condition Degraded")
	case t.seen == nil:
		t.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "Unreachable", "the cluster has not been looked at yet")
	case t.seen.Broker == nil:
		t.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "Unreachable", t.seen.Unasked)
	case up < wanted:
		t.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "NodesMissing", fmt.Sprintf("%d of %d nodes serve clients", up, wanted))
	default:
		t.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "Serving", fmt.Sprintf("%d nodes serve clients", up))
	}
}

// notes adds what is worth knowing and blocks nothing.
func (t *pass) notes(now map[string]Block) {
	if n := t.q.Spec.Replicas; n%2 == 0 {
		now[v1alpha1.ConditionReplicasEven] = Block{v1alpha1.ConditionReplicasEven, "Even", fmt.Sprintf(
			"%d nodes tolerate the loss of as many as %d do: ask for %d or %d", n, n-1, n-1, n+1)}
	}
	if t.seen == nil {
		return
	}
	if t.seen.Broker == nil && len(t.seen.Pods) > 0 && t.anyReady() {
		now[v1alpha1.ConditionUnreachable] = Block{v1alpha1.ConditionUnreachable, "NotAnswered", t.seen.Unasked}
	}
	if t.broker == nil {
		return
	}
	readable := uint32(0)
	for i, n := range t.broker.status.Nodes {
		if i == 0 || n.ReadsVersion < readable {
			readable = n.ReadsVersion
		}
	}
	if finalized := max(t.broker.status.FinalizedVersion, 1); readable > finalized {
		now[v1alpha1.ConditionUpgradeUnfinalized] = Block{v1alpha1.ConditionUpgradeUnfinalized, "WayBack", fmt.Sprintf(
			"version %d of stored state is finalised and all nodes read %d: the former version can still be set; quoratectl upgrade finalize completes the upgrade", finalized, readable)}
	}
}

// anyReady reports whether a pod serves clients.
func (t *pass) anyReady() bool {
	for _, p := range t.seen.Pods {
		if p.Ready {
			return true
		}
	}
	return false
}

// warn makes an event, once, of an image that is too old: whoever has set it looks there.
func (t *pass) warn(b Block) {
	before := meta.FindStatusCondition(t.q.Status.Conditions, b.Condition)
	if b.Reason != reasonTooOld || before != nil && before.Reason == reasonTooOld {
		return
	}
	t.Events.Eventf(t.q, nil, corev1.EventTypeWarning, reasonTooOld, "Upgrade", "%s", b.Message)
}

// condition sets a condition.
func (t *pass) condition(kind string, is metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&t.q.Status.Conditions, metav1.Condition{
		Type: kind, Status: is, Reason: reason, Message: shorten(message), ObservedGeneration: t.q.Generation,
	})
}

// messageMost is how long a condition's message may be; the API server takes 32768 bytes.
const messageMost = 2000

func shorten(text string) string {
	if r := []rune(text); len(r) > messageMost {
		return string(r[:messageMost]) + "…"
	}
	return text
}

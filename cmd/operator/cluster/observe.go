package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
)

const (
	// givenUp is on the claim of a node that the cluster has forgotten, leaving on that of a node that is being removed.
	givenUp = v1alpha1.Prefix + "given-up"
	leaving = v1alpha1.Prefix + "leaving"
)

// current returns the StatefulSet as it is; nil if there is none. One of somebody else, such as a release of Helm of the same
// name, is an obstacle: its pods and claims have the labels and names of the cluster's.
func (t *pass) current(ctx context.Context) (*appsv1.StatefulSet, error) {
	var set appsv1.StatefulSet
	switch err := t.Client.Get(ctx, kube.ObjectKeyFromObject(t.q), &set); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // a missing one is no error
	case err != nil:
		return nil, err
	case !ours(t.q, &set):
		return nil, taken(kindSet, set.Name)
	}
	return &set, nil
}

// observe fills Seen.
func (t *pass) observe(ctx context.Context) error {
	size, err := resource.ParseQuantity(sizeOf(t.objects.Set))
	if err != nil {
		return err
	}
	t.seen = &Seen{
		Wanted: int(t.q.Spec.Replicas), Template: t.objects.Set.Annotations[chart.AnnotationTemplate], SizeBytes: size.Value(),
		KeepVolumes: t.q.Spec.Storage.WhenScaled != v1alpha1.VolumeDeletionDelete, ReplaceByHand: t.q.Spec.LostVolumes == v1alpha1.Manual,
		TooOld: t.tooOld, Paused: t.q.Spec.Upgrade.Paused, AllowPauses: t.q.Spec.Upgrade.AllowPauses, HandsOff: handsOff(t.q),
		Founded: t.versions.Finalized > 0, Answers: map[Question]Answer{},
	}
	if t.set != nil {
		own := resource.MustParse(sizeOf(t.set))
		t.seen.Set = &Set{
			Replicas: int(*t.set.Spec.Replicas), Template: t.given(), SizeBytes: own.Value(),
			Available: int(t.set.Status.AvailableReplicas), Settled: t.set.Status.ObservedGeneration >= t.set.Generation && t.set.Status.UpdateRevision != "", Going: t.set.DeletionTimestamp != nil,
		}
	}
	if err := t.observePods(ctx); err != nil {
		return err
	}
	if err := t.observeClaims(ctx); err != nil {
		return err
	}
	t.seen.Lacks = t.lacks()
	t.observeBackups(ctx)
	t.askBroker(ctx)
	return nil
}

// sizeOf returns the size of the volumes that a StatefulSet makes.
func sizeOf(set *appsv1.StatefulSet) string {
	for _, c := range set.Spec.VolumeClaimTemplates {
		return c.Spec.Resources.Requests.Storage().String()
	}
	return "0"
}

// ordinal returns the number in the name of a pod or claim.
func ordinal(name, prefix string) (int, bool) {
	rest, is := strings.CutPrefix(name, prefix+"-")
	n, err := strconv.Atoi(rest)
	return n, is && err == nil && n >= 0
}

func (t *pass) observePods(ctx context.Context) error {
	var pods corev1.PodList
	if err := t.Client.List(ctx, &pods, kube.InNamespace(t.q.Namespace), kube.MatchingLabels(broker.Labels(t.q))); err != nil {
		return err
	}
	t.seen.Pods = map[int]Pod{}
	for i := range pods.Items {
		if n, is := ordinal(pods.Items[i].Name, t.q.Name); is {
			t.seen.Pods[n] = t.podOf(&pods.Items[i])
		}
	}
	return nil
}

// podOf reads a pod.
func (t *pass) podOf(pod *corev1.Pod) Pod {
	p := Pod{Going: pod.DeletionTimestamp != nil, Broken: broken(pod), Stuck: t.stuck(pod), TooOld: endedReading(pod)}
	if t.set != nil {
		p.Current = pod.Labels[appsv1.ControllerRevisionHashLabelKey] == t.set.Status.UpdateRevision
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			p.Serves, p.Ready = true, t.now().Sub(c.LastTransitionTime.Time) >= time.Duration(t.objects.Set.Spec.MinReadySeconds)*time.Second
		}
	}
	return p
}

func (t *pass) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// broken reports whether a pod has no process that runs, and gets none by itself: it has no machine, no image, no
// valid settings, or ends whenever it starts.
func broken(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return true
		}
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, neverStarts)
}

// neverStarts reports whether a container waits for something that it does not get by itself.
func neverStarts(c corev1.ContainerStatus) bool {
	return c.State.Waiting != nil && slices.Contains([]string{
		"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
		"CreateContainerError", "RunContainerError",
	}, c.State.Waiting.Reason)
}

// stuckAfter is how long a pod may wait for a machine before that needs a person: at first its volume is created.
const stuckAfter = time.Minute

// stuck says, in the words of Kubernetes and of the node, why a pod does not start; "": it may start by itself.
func (t *pass) stuck(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && t.now().Sub(c.LastTransitionTime.Time) >= stuckAfter {
			return c.Reason + ": " + c.Message
		}
	}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, neverStarts)
	if i < 0 {
		return ""
	}
	c := &pod.Status.ContainerStatuses[i]
	why := c.State.Waiting.Reason + ": " + c.State.Waiting.Message
	if ended := c.LastTerminationState.Terminated; ended != nil {
		lines := strings.Split(strings.TrimSpace(ended.Message), "\n")
		why += fmt.Sprintf("; it ended with code %d: %s", ended.ExitCode, lines[len(lines)-1])
	}
	return why
}

func (t *pass) observeClaims(ctx context.Context) error {
	var claims corev1.PersistentVolumeClaimList
	if err := t.Client.List(ctx, &claims, kube.InNamespace(t.q.Namespace), kube.MatchingLabels(broker.Labels(t.q))); err != nil {
		return err
	}
	t.seen.Claims = map[int]Claim{}
	growable := map[string]bool{}
	for i := range claims.Items {
		c := &claims.Items[i]
		n, is := ordinal(c.Name, "data-"+t.q.Name)
		if !is {
			continue
		}
		class := ""
		if c.Spec.StorageClassName != nil {
			class = *c.Spec.StorageClassName
		}
		if _, known := growable[class]; !known {
			growable[class] = t.growable(ctx, class)
		}
		t.seen.Claims[n] = Claim{
			SizeBytes: c.Spec.Resources.Requests.Storage().Value(), Growable: growable[class],
			Leaving: c.Annotations[leaving] != "", GivenUp: c.Annotations[givenUp] != "", Going: c.DeletionTimestamp != nil,
		}
	}
	return nil
}

// growable reports whether a class lets volumes grow. Where the operator may not read classes, it is tried.
func (t *pass) growable(ctx context.Context, class string) bool {
	var c storagev1.StorageClass
	err := t.Client.Get(ctx, types.NamespacedName{Name: class}, &c)
	if apierrors.IsForbidden(err) {
		return true
	}
	return err == nil && c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion
}

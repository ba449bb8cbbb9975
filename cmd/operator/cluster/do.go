package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/client"
)

// do carries a step out. Each step names the version of what was decided by, so that the API server refuses it if that
// has changed since.
func (t *pass) do(ctx context.Context, step Step) error {
	switch step.Do {
	case CreateSet:
		return t.applySet(ctx, int32(step.Replicas))
	case ChangeSet:
		return t.applySet(ctx, *t.set.Spec.Replicas)
	case OrphanSet:
		return t.Client.Delete(ctx, t.set, kube.PropagationPolicy(metav1.DeletePropagationOrphan), kube.Preconditions{UID: &t.set.UID})
	case SetReplicas:
		return t.patchSet(ctx, step.Replicas)
	case TakePod:
		return t.evict(ctx, step.Node)
	case GrowClaim, GiveUpClaim, UnmarkClaim, DeleteClaim, MarkLeaving:
		return t.doClaim(ctx, step)
	case RemoveNode, CancelRemoval, Undrain, ForgetNode, ReplaceNode:
		return t.doBroker(ctx, step)
	default:
		return nil
	}
}

// applySet applies the StatefulSet. What Kubernetes does not let change stays: larger volumes come by a new StatefulSet.
func (t *pass) applySet(ctx context.Context, replicas int32) error {
	set := t.objects.Set.DeepCopy()
	set.Spec.Replicas = &replicas
	if t.set != nil {
		set.Spec.VolumeClaimTemplates = t.set.Spec.VolumeClaimTemplates
		for i := range set.Spec.VolumeClaimTemplates {
			set.Spec.VolumeClaimTemplates[i].Status = corev1.PersistentVolumeClaimStatus{}
		}
		set.ResourceVersion = t.set.ResourceVersion
	}
	return t.apply(ctx, set)
}

// patchSet changes the number of replicas of the StatefulSet that was looked at.
func (t *pass) patchSet(ctx context.Context, replicas int) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": t.set.ResourceVersion}, "spec": map[string]any{"replicas": replicas},
	})
	if err != nil {
		return err
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: t.set.Name, Namespace: t.set.Namespace}}
	return t.Client.Patch(ctx, set, kube.RawPatch(types.MergePatchType, patch))
}

// evict ends a pod as a drain of its machine would: Kubernetes counts it against the PodDisruptionBudget, so that nobody
// else takes another node at the same time.
func (t *pass) evict(ctx context.Context, node int) error {
	var pod corev1.Pod
	if err := t.Client.Get(ctx, types.NamespacedName{Namespace: t.q.Namespace, Name: t.pod(node)}, &pod); err != nil {
		return err
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	return t.Client.SubResource("eviction").Create(ctx, &pod, eviction)
}

// doClaim changes the claim of a node's volume.
func (t *pass) doClaim(ctx context.Context, step Step) error {
	var c corev1.PersistentVolumeClaim
	if err := t.Client.Get(ctx, types.NamespacedName{Namespace: t.q.Namespace, Name: t.claim(step.Node)}, &c); err != nil {
		return err
	}
	switch step.Do {
	case DeleteClaim:
		if c.Annotations[givenUp] == "" {
			return apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), c.Name, errors.New("it is not marked as given up any more"))
		}
		return t.Client.Delete(ctx, &c, kube.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion})
	case GrowClaim:
		before := c.DeepCopy()
		for _, wanted := range t.objects.Set.Spec.VolumeClaimTemplates {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = *wanted.Spec.Resources.Requests.Storage()
		}
		return t.Client.Patch(ctx, &c, kube.MergeFrom(before))
	case MarkLeaving:
		return t.annotate(ctx, &c, leaving)
	case UnmarkClaim:
		before := c.DeepCopy()
		delete(c.Annotations, givenUp)
		return t.Client.Patch(ctx, &c, kube.MergeFrom(before))
	default:
		return t.annotate(ctx, &c, givenUp)
	}
}

// annotate notes the time under a name.
func (t *pass) annotate(ctx context.Context, c *corev1.PersistentVolumeClaim, name string) error {
	before := c.DeepCopy()
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[name] = t.now().UTC().Format(time.RFC3339)
	return t.Client.Patch(ctx, c, kube.MergeFromWithOptions(before, kube.MergeFromWithOptimisticLock{}))
}

// doBroker asks the broker for a change of nodes. It checks for itself once more whether that is safe.
func (t *pass) doBroker(ctx context.Context, step Step) error {
	node, c := t.pod(step.Node), t.broker.client
	switch step.Do {
	case RemoveNode:
		beside, err := t.Pool.Beside(ctx, t.q, node)
		if err != nil {
			return err
		}
		defer beside.Close()
		_, err = beside.RemoveNode(ctx, client.RemoveNodeRequest{Node: node, Exclude: t.next(step.Node)})
		return err
	case CancelRemoval:
		_, err := c.CancelOperation(ctx, t.broker.removal)
		return err
	case ForgetNode:
		_, err := c.ForgetNode(ctx, client.ForgetNodeRequest{Node: node, Replace: true})
		return err
	case ReplaceNode:
		_, err := c.ReplaceNode(ctx, client.ReplaceNodeRequest{Node: node})
		return err
	case Undrain:
		return t.undrain(ctx, step.Node)
	default:
		return errors.New("cluster: no such step of the broker")
	}
}

// undrain lets a node serve again, and then forgets that it was to leave.
func (t *pass) undrain(ctx context.Context, node int) error {
	if err := t.broker.client.Undrain(ctx, client.UndrainRequest{Node: t.pod(node)}); err != nil {
		return err
	}
	var c corev1.PersistentVolumeClaim
	if err := t.Client.Get(ctx, types.NamespacedName{Namespace: t.q.Namespace, Name: t.claim(node)}, &c); err != nil {
		return err
	}
	before := c.DeepCopy()
	delete(c.Annotations, leaving)
	return t.Client.Patch(ctx, &c, kube.MergeFrom(before))
}

package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/chart"
)

const (
	// finalizer keeps a cluster's object until what must be deleted with it is gone.
	finalizer = v1alpha1.Prefix + "cluster"
	// administrator is the user as whom the operator logs in.
	administrator = "quorate-operator"
	// secretBytes is how much chance is in a gossip key, which has this length, and in a password.
	secretBytes = 32
)

// draw renders the objects for the nodes that are wanted and those that are still there: what a node that is to leave needs
// must not go before it. A specification that no objects can be made of leaves a cluster that is there as it is: nothing is
// changed then, and all the rest goes on.
func (t *pass) draw(ctx context.Context) error {
	var err error
	if t.set, err = t.current(ctx); err != nil {
		return err
	}
	t.drawn = t.q.Spec.Replicas
	if t.set != nil {
		t.drawn = max(t.drawn, *t.set.Spec.Replicas)
	}
	t.versions = versionsOf(t.q)
	t.objects, t.tooOld, err = t.render()
	if err == nil || t.set == nil {
		return err
	}
	t.note(kindSpecification, false, &obstacle{reasonSpecification, err.Error()})
	t.objects = &chart.Objects{Set: t.set}
	return nil
}

// prepare makes everything but the StatefulSet, and deletes what is switched off: what other objects need is there before
// them, and none of it disturbs a node that runs. What is refused is noted, and the rest goes on.
func (t *pass) prepare(ctx context.Context) error {
	if err := hold(ctx, t.Client, t.q, controllerutil.AddFinalizer); err != nil {
		return err
	}
	if t.objects.Config == nil { // the specification makes none
		return nil
	}
	t.secrets(ctx)
	t.ensure(ctx, kindSettings, t.objects.Config)
	for _, u := range t.objects.Others {
		t.ensure(ctx, u.GetKind(), u)
	}
	t.backup(ctx)
	t.unused(ctx)
	return nil
}

// hold adds the finalizer, or removes it. An update would also drop the fields that only a newer operator knows, whose definition of
// the kind may be there already.
func hold(ctx context.Context, c kube.Client, q *v1alpha1.QuorateCluster, change func(kube.Object, string) bool) error {
	before := q.DeepCopy()
	if !change(q, finalizer) {
		return nil
	}
	return c.Patch(ctx, q, kube.MergeFromWithOptions(before, kube.MergeFromWithOptimisticLock{}))
}

// secrets makes the key of gossip and the operator's login, unless they are there. They have no owner: they stay when the
// object goes, as the volumes do, and are useless without them.
func (t *pass) secrets(ctx context.Context) {
	if t.q.Spec.Secrets.Gossip == "" {
		t.note(kindSecret, true, t.gossip(ctx))
	}
	if t.q.Spec.Secrets.Administrator == "" {
		t.note(kindSecret, true, t.login(ctx))
	}
}

// login makes the Secret of the user as whom the operator logs in.
func (t *pass) login(ctx context.Context) error {
	password, err := random()
	if err != nil {
		return err
	}
	return t.secret(ctx, broker.AdministratorSecret(t.q), map[string][]byte{
		corev1.BasicAuthUsernameKey: []byte(administrator), corev1.BasicAuthPasswordKey: []byte(base64.RawURLEncoding.EncodeToString(password)),
	})
}

// gossip makes the key of gossip for a new cluster. Nodes that have one would not understand those with a new one.
func (t *pass) gossip(ctx context.Context) error {
	name := chart.GossipSecret(t.q)
	var there corev1.Secret
	err := t.Client.Get(ctx, types.NamespacedName{Namespace: t.q.Namespace, Name: name}, &there)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if old, err := t.began(ctx); err != nil || old {
		return cmp.Or(err, error(&obstacle{reasonSecretLost, fmt.Sprintf("restore Secret %q: its gossip-key is the one that the nodes have, "+
			"and one with another key cannot join them; if nobody has it any more, make the Secret with a new key and end all pods at once", name)}))
	}
	key, err := random()
	if err != nil {
		return err
	}
	return t.secret(ctx, name, map[string][]byte{"gossip-key": []byte(base64.StdEncoding.EncodeToString(key))})
}

// began reports whether there is something of the cluster already: its StatefulSet, or volumes.
func (t *pass) began(ctx context.Context) (bool, error) {
	if t.set != nil {
		return true, nil
	}
	var claims corev1.PersistentVolumeClaimList
	err := t.Client.List(ctx, &claims, kube.InNamespace(t.q.Namespace), kube.MatchingLabels(broker.Labels(t.q)))
	return slices.ContainsFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
		_, is := ordinal(c.Name, "data-"+t.q.Name)
		return is && c.DeletionTimestamp == nil
	}), err
}

func random() ([]byte, error) {
	b := make([]byte, secretBytes)
	_, err := rand.Read(b)
	return b, err
}

// secret makes a Secret. One that is there stays as it is, whoever made it.
func (t *pass) secret(ctx context.Context, name string, data map[string][]byte) error {
	var there corev1.Secret
	err := t.Client.Get(ctx, types.NamespacedName{Namespace: t.q.Namespace, Name: name}, &there)
	if !apierrors.IsNotFound(err) {
		return err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.q.Namespace, Labels: broker.Labels(t.q), Annotations: map[string]string{madeBy: string(t.q.UID)}},
		Data:       data,
	}
	if err := t.Client.Create(ctx, s); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// madeBy is on a Secret that the operator has made: the UID of the object for which.
const madeBy = v1alpha1.Prefix + "made-by"

// apply applies an object, unless it is somebody else's.
func (t *pass) apply(ctx context.Context, o kube.Object) error {
	u, err := t.untyped(o)
	if err != nil {
		return err
	}
	if _, err := t.own(ctx, u); err != nil {
		return err
	}
	return t.send(ctx, u)
}

// untyped returns an object as it is sent: without what only Kubernetes writes.
func (t *pass) untyped(o kube.Object) (*unstructured.Unstructured, error) {
	u, is := o.(*unstructured.Unstructured)
	if !is {
		gvk, err := t.Client.GroupVersionKindFor(o)
		if err != nil {
			return nil, err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, err
		}
		u = &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(gvk)
		unstructured.RemoveNestedField(u.Object, "status")
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u, nil
}

// obstacle keeps the operator from making what a cluster needs, until a person deals with it.
type obstacle struct{ reason, message string }

func (o *obstacle) Error() string { return "cluster: " + o.message }

// Reasons of obstacles.
const (
	reasonSecretLost    = "SecretLost"
	reasonObjectTaken   = "ObjectTaken"
	reasonSpecification = "InvalidSpecification"
)

// taken is the obstacle that somebody else has made an object.
func taken(kind, name string) *obstacle {
	return &obstacle{reasonObjectTaken, fmt.Sprintf("there is a %s %q that this cluster has not made: delete it if nobody needs it, "+
		"or give the cluster another name", kind, name)}
}

// ours reports whether an object is a cluster's own. One whose owner was deleted without it, and that the operator made for a
// cluster of this name, is taken up again.
func ours(q *v1alpha1.QuorateCluster, there metav1.Object) bool {
	labels := there.GetLabels()
	left := metav1.GetControllerOf(there) == nil && labels["app.kubernetes.io/managed-by"] == v1alpha1.FieldManager && labels[instanceLabel] == q.Name
	return left || metav1.IsControlledBy(there, q)
}

// own refuses to take over an object of somebody else, which would go with the cluster. It reports whether one is there.
func (t *pass) own(ctx context.Context, u *unstructured.Unstructured) (bool, error) {
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(u.GroupVersionKind())
	switch err := t.Client.Get(ctx, kube.ObjectKeyFromObject(u), there); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cluster: read %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	if !ours(t.q, there) {
		return false, taken(u.GetKind(), u.GetName())
	}
	return true, nil
}

// send makes the API server set the fields that the operator wants on an object, and leaves others alone. Kinds that
// Kubernetes does not know belong to other operators: the error names what to install.
func (t *pass) send(ctx context.Context, u *unstructured.Unstructured) error {
	u.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(t.q, v1alpha1.GroupVersion().WithKind("QuorateCluster"))})
	err := t.Client.Apply(ctx, kube.ApplyConfigurationFromUnstructured(u), kube.FieldOwner(v1alpha1.FieldManager), kube.ForceOwnership)
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("cluster: %s %q: Kubernetes does not know this kind: install what brings it, or switch it off in the specification: %w", u.GetKind(), u.GetName(), err)
	case err != nil:
		return fmt.Errorf("cluster: apply %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// sweep deletes ConfigMaps of former settings once no pod has them.
func (t *pass) sweep(ctx context.Context) error {
	if t.objects.Config == nil || t.seen.Set == nil || t.seen.Set.Template != t.seen.Template {
		return nil
	}
	for _, p := range t.seen.Pods {
		if !p.Current || !p.Ready {
			return nil
		}
	}
	var all corev1.ConfigMapList
	if err := t.Client.List(ctx, &all, kube.InNamespace(t.q.Namespace), kube.MatchingLabels(broker.Labels(t.q))); err != nil {
		return err
	}
	for i := range all.Items {
		c := &all.Items[i]
		if c.Name == t.objects.Config.Name || !strings.HasPrefix(c.Name, t.q.Name+"-config-") {
			continue
		}
		if err := t.remove(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Package topology keeps what is in the brokers as objects of Kubernetes describe it: queues, exchanges, bindings,
// policies, users and permissions.
//
// One reconciler serves all kinds. A kind defines what its objects want, how that compares with what the broker has,
// and how to make and remove it. An object whose specification is new is applied by one call. After that it is
// compared, once in a resync, with a listing that all objects of its cluster share; so ten thousand objects that
// nobody touches cost a few calls. What was changed in the broker is put back where the broker can change it, and
// shown where it cannot.
//
// The reconcilers keep only the listings between two reconciliations: after the operator was killed at any point, the
// next reconciliation continues from the state of objects and broker.
package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/metrics"
	"github.com/quorate/quorate/cmd/operator/spec"
)

// runtimeObject is shorter where functions are passed.
type runtimeObject = runtime.Object

// Defaults of Config.
const (
	defaultResync  = 5 * time.Minute
	defaultWorkers = 8
)

// Indexes of the cache.
const (
	indexIdentity = "quorate.identity" // what an object names in its cluster
	indexCluster  = "quorate.cluster"
	indexSecret   = "quorate.secret" // the Secret of a QuorateUser
)

// Config is what the controllers are made of. Manager and Brokers are needed.
type Config struct {
	Manager ctrl.Manager
	Brokers Brokers
	// Metrics are the operator's; nil: none.
	Metrics *metrics.Metrics
	// Resync is how often each object is compared with the broker; 0: 5 minutes.
	Resync time.Duration
	// Workers is how many objects of one kind are reconciled at the same time; 0: 8.
	Workers int
}

// +kubebuilder:rbac:groups=quorate.github.io,resources=quoratequeues;quorateexchanges;quoratebindings;quoratepolicies;quorateusers;quoratepermissions,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=quorate.github.io,resources=quoratequeues/status;quorateexchanges/status;quoratebindings/status;quoratepolicies/status;quorateusers/status;quoratepermissions/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=quorate.github.io,resources=quorateclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Add adds the controllers of all kinds to the manager.
func Add(ctx context.Context, cfg Config) error {
	if cfg.Resync == 0 {
		cfg.Resync = defaultResync
	}
	if cfg.Workers == 0 {
		cfg.Workers = defaultWorkers
	}
	shared := newClusters(cfg.Brokers)
	var errs []error
	for name, k := range kinds() {
		errs = append(errs, add(ctx, cfg, name, k, shared))
	}
	return errors.Join(errs...)
}

// add adds the controller of one kind.
func add(ctx context.Context, cfg Config, name string, k kind, shared *clusters) error {
	m := cfg.Manager
	if err := addIndexes(ctx, m.GetFieldIndexer(), k); err != nil {
		return fmt.Errorf("topology: index of kind %s: %w", name, err)
	}
	r := &reconciler{
		kind: k, kube: m.GetClient(), secrets: m.GetAPIReader(), versions: m.GetCache(), recorder: m.GetEventRecorder(v1alpha1.FieldManager),
		clusters: shared, metrics: cfg.Metrics, resync: cfg.Resync,
	}
	b := ctrl.NewControllerManagedBy(m).Named(name).
		For(k.object(), builder.WithPredicates(specChanged())).
		Watches(k.object(), handler.EnqueueRequestsFromMapFunc(r.successors), builder.WithPredicates(onlyDeleted())).
		Watches(&v1alpha1.QuorateCluster{}, handler.EnqueueRequestsFromMapFunc(r.inCluster), builder.WithPredicates(r.clusterChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: cfg.Workers})
	if _, is := k.object().(*v1alpha1.QuorateUser); is {
		b = b.WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.withSecret))
	}
	return b.Complete(r)
}

// specChanged passes what a look is due for: a new specification, or a deletion. The operator's own writes of statuses are
// not.
func specChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.NewPredicateFuncs(func(o kube.Object) bool {
		return !o.GetDeletionTimestamp().IsZero()
	}))
}

// onlyDeleted passes objects that are gone.
func onlyDeleted() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// clusterChanged passes clusters that came, went, began to serve, or allow other namespaces; then all their objects
// must be reconciled. A cluster that begins to serve need no longer be left alone.
func (r *reconciler) clusterChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := as[*v1alpha1.QuorateCluster](e.ObjectOld), as[*v1alpha1.QuorateCluster](e.ObjectNew)
			began := !serves(was) && serves(is)
			if began {
				r.clusters.of(is).inventory.Breaker.Reset()
			}
			return began || was.Generation != is.Generation || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
		},
	}
}

// serves reports whether a node of the cluster serves clients.
func serves(c *v1alpha1.QuorateCluster) bool { return c.Status.ReadyReplicas > 0 }

// clusterOf names the cluster that an object is in.
func clusterOf(o object) types.NamespacedName { return spec.ClusterOf(o.InCluster(), o.GetNamespace()) }

// identityOf names what an object stands for, over all clusters.
func identityOf(o object, x subject) string { return clusterOf(o).String() + "\x00" + x.identity() }

// identity reads what identityOf needs.
func (k kind) identity(o object) string {
	x, _ := k.read(o)
	return identityOf(o, x)
}

// addIndexes lets the cache find namesakes, the objects of a cluster, and the users of a Secret.
func addIndexes(ctx context.Context, i kube.FieldIndexer, k kind) error {
	errs := []error{
		i.IndexField(ctx, k.object(), indexIdentity, func(o kube.Object) []string { return []string{k.identity(as[object](o))} }),
		i.IndexField(ctx, k.object(), indexCluster, func(o kube.Object) []string { return []string{clusterOf(as[object](o)).String()} }),
	}
	if _, is := k.object().(*v1alpha1.QuorateUser); is {
		errs = append(errs, i.IndexField(ctx, k.object(), indexSecret, func(o kube.Object) []string {
			name, _ := SecretOf(as[*v1alpha1.QuorateUser](o))
			return []string{name}
		}))
	}
	return errors.Join(errs...)
}

// successors are the namesakes of an object that is gone: the oldest of them owns the thing from now on.
func (r *reconciler) successors(ctx context.Context, o kube.Object) []ctrl.Request {
	return r.requests(ctx, kube.MatchingFields{indexIdentity: r.kind.identity(as[object](o))})
}

// inCluster are the objects of a cluster.
func (r *reconciler) inCluster(ctx context.Context, o kube.Object) []ctrl.Request {
	return r.requests(ctx, kube.MatchingFields{indexCluster: kube.ObjectKeyFromObject(o).String()})
}

// withSecret are the users whose password a Secret has.
func (r *reconciler) withSecret(ctx context.Context, o kube.Object) []ctrl.Request {
	return r.requests(ctx, kube.InNamespace(o.GetNamespace()), kube.MatchingFields{indexSecret: o.GetName()})
}

// requests asks for a reconciliation of all objects that the cache finds.
func (r *reconciler) requests(ctx context.Context, by ...kube.ListOption) []ctrl.Request {
	list := r.kind.list()
	if err := r.kube.List(ctx, list, by...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list the objects to look at; the next resync finds them")
		return nil
	}
	var out []ctrl.Request
	_ = meta.EachListItem(list, func(item runtimeObject) error { // the function never fails
		if o, is := item.(kube.Object); is {
			out = append(out, ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(o)})
		}
		return nil
	})
	return out
}

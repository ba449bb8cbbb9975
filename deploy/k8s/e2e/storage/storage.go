// Package storage provides volumes for tests of Kubernetes: a directory for each claim, on the machine
// that all nodes are processes of. So every node reaches every volume, as over a network.
//
// It does what a provisioner and a resizer do: it makes volumes for claims, enlarges them, and removes
// them once they are released, if their reclaim policy says so. Sizes are numbers only: a directory
// takes what its file system has.
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/quorate/quorate/internal/wait"
)

// Provisioner is the name by which a StorageClass asks for volumes of this package.
const Provisioner = "quorate.github.io/directory"

const (
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	// again is how long after an error everything is checked once more.
	again = time.Second
)

// provider makes what the API asks for true. One goroutine runs it.
type provider struct {
	client                   kubernetes.Interface
	dir                      string
	changed                  chan struct{}
	claims, volumes, classes cache.Store
}

// Run serves claims with directories below dir until the context ends.
func Run(ctx context.Context, client kubernetes.Interface, dir string) {
	p := &provider{client: client, dir: dir, changed: make(chan struct{}, 1)}
	api := client.CoreV1().RESTClient()
	p.claims = p.follow(ctx, api, "persistentvolumeclaims", &core.PersistentVolumeClaim{})
	p.volumes = p.follow(ctx, api, "persistentvolumes", &core.PersistentVolume{})
	p.classes = p.follow(ctx, client.StorageV1().RESTClient(), "storageclasses", &storage.StorageClass{})
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		if err := p.reconcile(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "volumes are served again in a second")
			time.AfterFunc(again, func() { wait.Wake(p.changed) })
		}
	}
}

// follow keeps a copy of all objects of a kind until the context ends.
func (p *provider) follow(ctx context.Context, api rest.Interface, kind string, of runtime.Object) cache.Store {
	wake := func() { wait.Wake(p.changed) }
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(api, kind, meta.NamespaceAll, fields.Everything()), ObjectType: of,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
		},
	})
	go informer.RunWithContext(ctx)
	return store
}

// get finds an object by its key in a copy.
func get[T any](of cache.Store, key string) (found T, is bool) {
	object, is, err := of.GetByKey(key)
	if err != nil || !is {
		return found, false
	}
	found, is = object.(T)
	return found, is
}

// reconcile checks all claims and volumes. A volume has its claim's unique name, so that nothing is made twice.
func (p *provider) reconcile(ctx context.Context) error {
	var errs []error
	for _, o := range p.claims.List() {
		c, is := o.(*core.PersistentVolumeClaim)
		switch {
		case !is, c.DeletionTimestamp != nil:
		case c.Spec.VolumeName == "" && c.Spec.StorageClassName != nil:
			errs = append(errs, p.provide(ctx, c))
		case c.Status.Phase == core.ClaimBound:
			errs = append(errs, p.enlarge(ctx, c))
		}
	}
	for _, o := range p.volumes.List() {
		if v, is := o.(*core.PersistentVolume); is && v.Annotations[provisionedBy] == Provisioner && v.Status.Phase == core.VolumeReleased &&
			v.Spec.PersistentVolumeReclaimPolicy == core.PersistentVolumeReclaimDelete && v.DeletionTimestamp == nil {
			errs = append(errs, p.remove(ctx, v))
		}
	}
	return errors.Join(errs...)
}

// provide makes the volume of a claim.
func (p *provider) provide(ctx context.Context, c *core.PersistentVolumeClaim) error {
	class, is := get[*storage.StorageClass](p.classes, *c.Spec.StorageClassName)
	if !is || class.Provisioner != Provisioner {
		return nil
	}
	name := "pvc-" + string(c.UID)
	if _, is := get[*core.PersistentVolume](p.volumes, name); is {
		return nil // it is being bound
	}
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	v := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: Provisioner}},
		Spec: core.PersistentVolumeSpec{
			Capacity: core.ResourceList{core.ResourceStorage: c.Spec.Resources.Requests[core.ResourceStorage]}, AccessModes: c.Spec.AccessModes,
			ClaimRef:         &core.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			StorageClassName: class.Name, PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			PersistentVolumeSource: core.PersistentVolumeSource{Local: &core.LocalVolumeSource{Path: path}},
			// The API wants to know where a local volume is: everywhere.
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
				MatchExpressions: []core.NodeSelectorRequirement{{Key: core.LabelOSStable, Operator: core.NodeSelectorOpIn, Values: []string{"linux"}}},
			}}}},
		},
	}
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, v, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// enlarge gives a claim the size that it asks for.
func (p *provider) enlarge(ctx context.Context, c *core.PersistentVolumeClaim) error {
	v, is := get[*core.PersistentVolume](p.volumes, c.Spec.VolumeName)
	if !is || v.Annotations[provisionedBy] != Provisioner {
		return nil // the claim is another provisioner's, or its volume is seen later
	}
	want := c.Spec.Resources.Requests[core.ResourceStorage]
	if has := v.Spec.Capacity[core.ResourceStorage]; has.Cmp(want) < 0 {
		v = v.DeepCopy()
		v.Spec.Capacity[core.ResourceStorage] = want
		if _, err := p.client.CoreV1().PersistentVolumes().Update(ctx, v, meta.UpdateOptions{}); err != nil {
			return fmt.Errorf("enlarge %s: %w", v.Name, err)
		}
	}
	if has := c.Status.Capacity[core.ResourceStorage]; has.Cmp(want) < 0 {
		c = c.DeepCopy()
		c.Status.Capacity[core.ResourceStorage] = want
		c.Status.Conditions = nil
		if _, err := p.client.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, meta.UpdateOptions{}); err != nil {
			return fmt.Errorf("enlarge claim %s/%s: %w", c.Namespace, c.Name, err)
		}
	}
	return nil
}

// remove removes a volume with its data.
func (p *provider) remove(ctx context.Context, v *core.PersistentVolume) error {
	if err := os.RemoveAll(v.Spec.Local.Path); err != nil {
		return err
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, meta.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

package topology

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// The API server refuses updates of an object that somebody wrote with empty fields, such as name: "", because a client that
// knows its type drops them. It is looked after all the same, and what somebody else changes at that moment stays.
func TestExplicitlyEmpty(t *testing.T) {
	const other = "example.com/other"
	for name, k := range kinds() {
		o := k.object()
		o.SetNamespace("shop")
		o.SetName("x")
		r, _, _ := alone(t, name, o)
		api, meddled := as[kube.WithWatch](r.kube), false
		r.kube = interceptor.NewClient(api, interceptor.Funcs{
			Update: func(context.Context, kube.WithWatch, kube.Object, ...kube.UpdateOption) error {
				fault := field.Invalid(field.NewPath("spec"), "object", "name is immutable: make a new object")
				return apierrors.NewInvalid(schema.GroupKind{Kind: k.name}, "x", field.ErrorList{fault})
			},
			Patch: func(ctx context.Context, c kube.WithWatch, patched kube.Object, p kube.Patch, opts ...kube.PatchOption) error {
				if there := k.object(); !meddled {
					meddled = true
					if err := c.Get(ctx, kube.ObjectKeyFromObject(o), there); err != nil {
						return err
					}
					there.SetFinalizers([]string{other})
					if err := c.Update(ctx, there); err != nil {
						return err
					}
				}
				return c.Patch(ctx, patched, p, opts...)
			},
		})
		for range 2 { // the first look meets somebody else's change
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: kube.ObjectKeyFromObject(o)}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := api.Get(t.Context(), kube.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if got := o.GetFinalizers(); !slices.Equal(got, []string{other, Finalizer}) {
			t.Errorf("%s has the finalizers %q", name, got)
		}
		if meta.FindStatusCondition(o.Common().Conditions, v1alpha1.ConditionReady) == nil {
			t.Errorf("%s has no condition", name)
		}
	}
}

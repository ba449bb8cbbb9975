package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

// shared finds a cluster that allows namespace team a vhost and users.
func shared(t *testing.T) kube.Reader {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(&v1alpha1.QuorateCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "main"},
		Spec: v1alpha1.QuorateClusterSpec{Topology: v1alpha1.TopologySpec{
			AllowedNamespaces: []v1alpha1.NamespaceScope{{Namespace: "team", VHosts: []string{"orders"}, Users: []string{"orders-*"}}},
		}},
	}).Build()
}

func queue(arguments string) *v1alpha1.QuorateQueue {
	return &v1alpha1.QuorateQueue{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       v1alpha1.QuorateQueueSpec{Arguments: &apiextensionsv1.JSON{Raw: []byte(arguments)}},
	}
}

// Faults are refused as the API server refuses those that it finds itself; what is only without effect is a warning.
func TestQueues(t *testing.T) {
	v, ctx := queues(shared(t)), t.Context()
	good, bad, odd := queue(`{"x-max-length": 5}`), queue(`{"x-max-length": -5}`), queue(`{"x-max-legnth": 5}`)
	if w, err := v.ValidateCreate(ctx, good); len(w) > 0 || err != nil {
		t.Errorf("%v, %v", w, err)
	}
	if _, err := v.ValidateCreate(ctx, bad); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.arguments[x-max-length]: Invalid value: \"-5\": out of range") {
		t.Errorf("%v", err)
	}
	if w, err := v.ValidateCreate(ctx, odd); len(w) != 1 || err != nil {
		t.Errorf("%v, %v", w, err)
	}
	if w, err := v.ValidateUpdate(ctx, good, queue(`{"x-max-length": 6}`)); len(w) != 1 || !strings.Contains(w[0], "Drifted") || err != nil {
		t.Errorf("%v, %v", w, err)
	}
	if _, err := v.ValidateUpdate(ctx, good, bad); err == nil {
		t.Error("a change for the worse passes")
	}
}

// An object that could not be made today can still be labelled, and deleted.
func TestOldFaultsDoNotHoldObjects(t *testing.T) {
	v, ctx := queues(shared(t)), t.Context()
	was := queue(`{"x-max-length": -5}`)
	labelled := was.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	if _, err := v.ValidateUpdate(ctx, was, labelled); err != nil {
		t.Error(err)
	}
	now := metav1.Now()
	dying := queue(`{"x-max-length": -6}`)
	dying.DeletionTimestamp = &now
	if _, err := v.ValidateUpdate(ctx, was, dying); err != nil {
		t.Error(err)
	}
	if _, err := v.ValidateDelete(ctx, was); err != nil {
		t.Error(err)
	}
}

// Every kind refuses what its specification has wrong.
func TestKinds(t *testing.T) {
	ctx, definition := t.Context(), apiextensionsv1.JSON{Raw: []byte(`{"max-length": "x"}`)}
	for what, check := range map[string]func() error{
		"exchange": func() error {
			_, err := exchanges(shared(t)).ValidateCreate(ctx, &v1alpha1.QuorateExchange{Spec: v1alpha1.QuorateExchangeSpec{Name: "x", Type: "none"}})
			return err
		},
		"binding": func() error {
			_, err := bindings(shared(t)).ValidateCreate(ctx, &v1alpha1.QuorateBinding{})
			return err
		},
		"policy": func() error {
			_, err := policies(shared(t)).ValidateCreate(ctx, &v1alpha1.QuoratePolicy{Spec: v1alpha1.QuoratePolicySpec{Name: "p", Definition: definition}})
			return err
		},
		"user": func() error {
			_, err := users(shared(t)).ValidateCreate(ctx, &v1alpha1.QuorateUser{Spec: v1alpha1.QuorateUserSpec{Name: "a:b"}})
			return err
		},
		"permission": func() error {
			_, err := permissions(shared(t)).ValidateCreate(ctx, &v1alpha1.QuoratePermission{Spec: v1alpha1.QuoratePermissionSpec{User: "u", Read: "("}})
			return err
		},
	} {
		if err := check(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What the cluster does not allow to the namespace is refused with the field; what cannot be checked is let pass with a
// warning, and without a cluster there is nothing to check.
func TestScope(t *testing.T) {
	ctx, far := t.Context(), v1alpha1.ClusterReference{Namespace: "shop", Name: "main"}
	in := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "orders-app"}
	}
	of := func(namespace, vhost string) *v1alpha1.QuorateQueue {
		return &v1alpha1.QuorateQueue{ObjectMeta: in(namespace), Spec: v1alpha1.QuorateQueueSpec{Cluster: far, VHost: vhost}}
	}
	for what, c := range map[string]struct {
		check func() error
		want  string
	}{
		"the cluster's own namespace": {func() error { _, err := queues(shared(t)).ValidateCreate(ctx, of("shop", "/")); return err }, ""},
		"a vhost that is allowed":     {func() error { _, err := queues(shared(t)).ValidateCreate(ctx, of("team", "orders")); return err }, ""},
		"one that is not":             {func() error { _, err := queues(shared(t)).ValidateCreate(ctx, of("team", "/")); return err }, "spec.vhost: Forbidden"},
		"another namespace":           {func() error { _, err := queues(shared(t)).ValidateCreate(ctx, of("other", "orders")); return err }, "spec.cluster: Forbidden"},
		"a tag": {func() error {
			u := &v1alpha1.QuorateUser{ObjectMeta: in("team"), Spec: v1alpha1.QuorateUserSpec{Cluster: far}}
			is := u.DeepCopy()
			is.Spec.Tags = []string{"administrator"}
			_, err := users(shared(t)).ValidateUpdate(ctx, u, is)
			return err
		}, "spec.tags: Forbidden"},
	} {
		err := c.check()
		if c.want == "" && err != nil || c.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	cut := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Get: func(context.Context, kube.WithWatch, kube.ObjectKey, kube.Object, ...kube.GetOption) error {
			return errors.New("no connection")
		},
	})
	if w, err := queues(cut).ValidateCreate(ctx, of("team", "/")); err != nil || len(w) != 1 || !strings.Contains(w[0], "no connection") {
		t.Errorf("%q, %v", w, err)
	}
}

// An object that is out of scope since an entry was narrowed can still be changed in what needs no scope, and no more.
func TestNarrowedScope(t *testing.T) {
	ctx, five := t.Context(), int64(5)
	was := &v1alpha1.QuorateUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "orders-app"},
		Spec:       v1alpha1.QuorateUserSpec{Cluster: v1alpha1.ClusterReference{Namespace: "shop", Name: "main"}, Tags: []string{"management", "monitoring"}},
	}
	for what, c := range map[string]struct {
		change func(*v1alpha1.QuorateUserSpec)
		want   string
	}{
		"retained":        {func(s *v1alpha1.QuorateUserSpec) { s.Deletion = v1alpha1.ObjectDeletionRetain }, ""},
		"other limits":    {func(s *v1alpha1.QuorateUserSpec) { s.Limits = &v1alpha1.UserLimits{MaxQueues: &five} }, ""},
		"tags in order":   {func(s *v1alpha1.QuorateUserSpec) { s.Tags = []string{"monitoring", "management"} }, ""},
		"no tags":         {func(s *v1alpha1.QuorateUserSpec) { s.Tags = nil }, ""},
		"one tag less":    {func(s *v1alpha1.QuorateUserSpec) { s.Tags = []string{"monitoring"} }, "spec.tags: Forbidden"},
		"another cluster": {func(s *v1alpha1.QuorateUserSpec) { s.Cluster = v1alpha1.ClusterReference{Name: "none"} }, ""},
		"the name":        {func(s *v1alpha1.QuorateUserSpec) { s.Name = "ops" }, "spec.name: Forbidden"},
	} {
		is := was.DeepCopy()
		c.change(&is.Spec)
		_, err := users(shared(t)).ValidateUpdate(ctx, was, is)
		if c.want == "" && err != nil || c.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	elsewhere := was.DeepCopy()
	elsewhere.Spec.Cluster = v1alpha1.ClusterReference{Name: "none"}
	if _, err := users(shared(t)).ValidateUpdate(ctx, elsewhere, was); !apierrors.IsInvalid(err) {
		t.Errorf("the same demand of another cluster is not checked: %v", err)
	}
}

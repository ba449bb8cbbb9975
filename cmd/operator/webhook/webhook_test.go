package webhook

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
)

func queue(arguments string) *v1alpha1.QuorateQueue {
	return &v1alpha1.QuorateQueue{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:       v1alpha1.QuorateQueueSpec{Arguments: &apiextensionsv1.JSON{Raw: []byte(arguments)}},
	}
}

// Faults are refused as the API server refuses those that it finds itself; what is only without effect is a warning.
func TestQueues(t *testing.T) {
	v, ctx := queues(), t.Context()
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
	v, ctx := queues(), t.Context()
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
			_, err := exchanges().ValidateCreate(ctx, &v1alpha1.QuorateExchange{Spec: v1alpha1.QuorateExchangeSpec{Name: "x", Type: "none"}})
			return err
		},
		"binding": func() error { _, err := bindings().ValidateCreate(ctx, &v1alpha1.QuorateBinding{}); return err },
		"policy": func() error {
			_, err := policies().ValidateCreate(ctx, &v1alpha1.QuoratePolicy{Spec: v1alpha1.QuoratePolicySpec{Name: "p", Definition: definition}})
			return err
		},
		"user": func() error {
			_, err := users().ValidateCreate(ctx, &v1alpha1.QuorateUser{Spec: v1alpha1.QuorateUserSpec{Name: "a:b"}})
			return err
		},
		"permission": func() error {
			_, err := permissions().ValidateCreate(ctx, &v1alpha1.QuoratePermission{Spec: v1alpha1.QuoratePermissionSpec{User: "u", Read: "("}})
			return err
		},
	} {
		if err := check(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

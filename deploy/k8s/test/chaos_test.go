package k8s

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// What quoratectl chaos makes in a cluster is valid as the API server reads it: a policy that lets a
// node send to all the world but the nodes that it is cut off from, and a pod that only a fault in its
// script could leave behind.
func TestChaosManifests(t *testing.T) {
	files, err := filepath.Glob("../../../chaos/target/k8s/testdata/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("manifests %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := strictDecoder(t).Decode(text, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		switch o := o.(type) {
		case *networkingv1.NetworkPolicy:
			chaosPolicy(t, o)
		case *corev1.Pod:
			s := o.Spec
			if !s.HostPID || s.NodeName == "" || s.RestartPolicy != corev1.RestartPolicyNever || len(s.Containers) != 1 || !isTrue(s.Containers[0].SecurityContext.Privileged) {
				t.Errorf("%s: %+v", file, s)
			}
		default:
			t.Errorf("%s has a %T", file, o)
		}
	}
}

// chaosPolicy demands that only quorate-0 is kept in, and that it reaches all but quorate-1 and
// quorate-2.
func chaosPolicy(t *testing.T, p *networkingv1.NetworkPolicy) {
	t.Helper()
	const name = "statefulset.kubernetes.io/pod-name"
	if len(p.Spec.PolicyTypes) != 1 || p.Spec.PolicyTypes[0] != networkingv1.PolicyTypeEgress || len(p.Spec.Egress) != 1 {
		t.Fatalf("the policy is %+v", p.Spec)
	}
	pods := labels.Set{"app.kubernetes.io/name": "quorate"}
	for pod, want := range map[string]bool{"quorate-0": true, "quorate-1": false} {
		pods[name] = pod
		if got := selects(t, &p.Spec.PodSelector, pods); got != want {
			t.Errorf("what %s sends is kept in: %v", pod, got)
		}
	}
	to := p.Spec.Egress[0].To
	for pod, want := range map[string]bool{"quorate-1": false, "quorate-2": false, "quorate-3": true} {
		pods[name] = pod
		if got := selects(t, to[0].PodSelector, pods); got != want {
			t.Errorf("%s is reached: %v", pod, got)
		}
	}
	for namespace, want := range map[string]bool{p.Namespace: false, "kube-system": true} {
		if got := selects(t, to[1].NamespaceSelector, labels.Set{corev1.LabelMetadataName: namespace}); got != want {
			t.Errorf("namespace %s is reached: %v", namespace, got)
		}
	}
}

// Package v1alpha1 has the objects by which the operator is asked to run clusters of Quorate and to
// keep what is in them: their specifications are what is wanted, their statuses what was last seen.
//
// The comments of fields become the descriptions of the custom resource definitions. After a change
// run `make operator-gen`, which writes zz_generated.deepcopy.go and deploy/k8s/operator/crds.
//
// +kubebuilder:object:generate=true
// +groupName=quorate.github.io
package v1alpha1

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds of this package.
const Group = "quorate.github.io"

// FieldManager is who the API server records as the owner of the fields that the operator sets.
const FieldManager = "quorate-operator"

// Prefix begins the names of the annotations, labels and finalizers that the operator sets.
const Prefix = Group + "/"

// GroupVersion returns the group and version of all kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// AddToScheme adds all kinds of this package to a scheme, so that clients can read and write them.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&QuorateCluster{}, &QuorateClusterList{},
		&QuorateQueue{}, &QuorateQueueList{},
		&QuorateExchange{}, &QuorateExchangeList{},
		&QuorateBinding{}, &QuorateBindingList{},
		&QuoratePolicy{}, &QuoratePolicyList{},
		&QuorateUser{}, &QuorateUserList{},
		&QuoratePermission{}, &QuoratePermissionList{},
		&QuorateRebalance{}, &QuorateRebalanceList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QuoratePolicySpec describes a policy, which can be changed at any time.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="cluster is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.vhost == oldSelf.vhost",message="vhost is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",message="name is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="(has(self.operator) && self.operator) == (has(oldSelf.operator) && oldSelf.operator)",message="operator is immutable: make a new object"
type QuoratePolicySpec struct {
	// Cluster that the policy is in.
	Cluster ClusterReference `json:"cluster"`
	// VHost of the policy. It must exist.
	//
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VHost string `json:"vhost,omitempty"`
	// Name of the policy in the broker; empty: the name of this object.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`
	// Operator policies bound what users set.
	//
	// +optional
	Operator bool `json:"operator,omitempty"`
	// Pattern is a Perl-style regular expression, found anywhere in the name of a queue or exchange.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Pattern string `json:"pattern"`
	// ApplyTo is all, queues, quorum_queues, classic_queues or exchanges.
	//
	// +optional
	// +kubebuilder:default=all
	// +kubebuilder:validation:Enum=all;queues;quorum_queues;classic_queues;exchanges
	ApplyTo string `json:"applyTo,omitempty"`
	// Priority: of the policies that match, the one with the highest applies.
	//
	// +optional
	Priority int64 `json:"priority,omitempty"`
	// Definition has the settings, such as max-length or dead-letter-exchange.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Definition apiextensionsv1.JSON `json:"definition"`
	// Deletion is what happens to the policy when this object is deleted.
	//
	// +optional
	// +kubebuilder:default=Delete
	Deletion ObjectDeletion `json:"deletion,omitempty"`
}

// QuoratePolicy is a policy in a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qpolicy,categories=quorate,path=quoratepolicies
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="VHost",type=string,JSONPath=`.spec.vhost`
// +kubebuilder:printcolumn:name="Pattern",type=string,JSONPath=`.spec.pattern`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuoratePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuoratePolicySpec `json:"spec"`
	Status TopologyStatus    `json:"status,omitempty"`
}

// QuoratePolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type QuoratePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QuoratePolicy `json:"items"`
}

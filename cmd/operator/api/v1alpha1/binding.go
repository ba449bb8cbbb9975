package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QuorateBindingSpec describes a binding. All of it but deletion is its identity in the broker, so
// none of that changes.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="cluster is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.vhost == oldSelf.vhost",message="vhost is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.source == oldSelf.source",message="source is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.destination == oldSelf.destination",message="destination is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.destinationType == oldSelf.destinationType",message="destinationType is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="(has(self.routingKey) ? self.routingKey : \"\") == (has(oldSelf.routingKey) ? oldSelf.routingKey : \"\")",message="routingKey is immutable: make a new object"
type QuorateBindingSpec struct {
	// Cluster that the binding is in.
	Cluster ClusterReference `json:"cluster"`
	// VHost of the binding. It must exist.
	//
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VHost string `json:"vhost,omitempty"`
	// Source is the exchange at which the binding begins.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Source string `json:"source"`
	// Destination is the queue or exchange at which it ends.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Destination string `json:"destination"`
	// DestinationType is queue or exchange.
	//
	// +optional
	// +kubebuilder:default=queue
	// +kubebuilder:validation:Enum=queue;exchange
	DestinationType string `json:"destinationType,omitempty"`
	// RoutingKey of the binding.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	RoutingKey string `json:"routingKey,omitempty"`
	// Arguments of the binding, such as x-match. A change makes another binding: the former one is
	// removed after the new one is there.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Arguments *apiextensionsv1.JSON `json:"arguments,omitempty"`
	// Deletion is what happens to the binding when this object is deleted.
	//
	// +optional
	// +kubebuilder:default=Delete
	Deletion ObjectDeletion `json:"deletion,omitempty"`
}

// QuorateBindingStatus is what was last seen of the binding.
type QuorateBindingStatus struct {
	TopologyStatus `json:",inline"`
	// Arguments that the binding in the broker was made with, which a change of the specification needs
	// to remove it.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Arguments *apiextensionsv1.JSON `json:"arguments,omitempty"`
}

// QuorateBinding is a binding in a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qbinding,categories=quorate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="VHost",type=string,JSONPath=`.spec.vhost`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`
// +kubebuilder:printcolumn:name="Destination",type=string,JSONPath=`.spec.destination`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuorateBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuorateBindingSpec   `json:"spec"`
	Status QuorateBindingStatus `json:"status,omitempty"`
}

// QuorateBindingList is a list of bindings.
//
// +kubebuilder:object:root=true
type QuorateBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QuorateBinding `json:"items"`
}

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectDeletion is what happens to something in the broker when its object is deleted.
//
// +kubebuilder:validation:Enum=Delete;Retain
type ObjectDeletion string

// The values of ObjectDeletion.
const (
	// ObjectDeletionDelete deletes it from the broker, too.
	ObjectDeletionDelete ObjectDeletion = "Delete"
	// ObjectDeletionRetain leaves it in the broker.
	ObjectDeletionRetain ObjectDeletion = "Retain"
)

// ExchangeDeletion is what happens to an exchange when its object is deleted.
//
// +kubebuilder:validation:Enum=WhenUnused;Always;Retain
type ExchangeDeletion string

// The values of ExchangeDeletion.
const (
	// ExchangeDeletionWhenUnused deletes the exchange once no binding begins at it.
	ExchangeDeletionWhenUnused ExchangeDeletion = "WhenUnused"
	// ExchangeDeletionAlways deletes the exchange with its bindings.
	ExchangeDeletionAlways ExchangeDeletion = "Always"
	// ExchangeDeletionRetain leaves the exchange in the broker.
	ExchangeDeletionRetain ExchangeDeletion = "Retain"
)

// QuorateExchangeSpec describes an exchange. The broker changes no exchange that exists.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="cluster is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.vhost == oldSelf.vhost",message="vhost is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",message="name is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="(has(self.autoDelete) && self.autoDelete) == (has(oldSelf.autoDelete) && oldSelf.autoDelete)",message="autoDelete is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="(has(self.internal) && self.internal) == (has(oldSelf.internal) && oldSelf.internal)",message="internal is immutable: make a new object"
type QuorateExchangeSpec struct {
	// Cluster that the exchange is in.
	Cluster ClusterReference `json:"cluster"`
	// VHost of the exchange. It must exist.
	//
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VHost string `json:"vhost,omitempty"`
	// Name of the exchange in the broker; empty: the name of this object.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`
	// Type of the exchange: direct, fanout, topic, headers, or another one that the broker knows.
	//
	// +optional
	// +kubebuilder:default=direct
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Type string `json:"type,omitempty"`
	// AutoDelete deletes the exchange when the last binding from it is removed.
	//
	// +optional
	AutoDelete bool `json:"autoDelete,omitempty"`
	// Internal exchanges take messages from other exchanges and from dead-lettering, not from clients.
	//
	// +optional
	Internal bool `json:"internal,omitempty"`
	// Arguments of the declare, such as alternate-exchange.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Arguments *apiextensionsv1.JSON `json:"arguments,omitempty"`
	// Deletion is what happens to the exchange when this object is deleted: WhenUnused waits until no
	// binding begins at it, Always deletes it with its bindings, Retain leaves it.
	//
	// +optional
	// +kubebuilder:default=WhenUnused
	Deletion ExchangeDeletion `json:"deletion,omitempty"`
}

// QuorateExchange is an exchange in a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qexchange,categories=quorate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="VHost",type=string,JSONPath=`.spec.vhost`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuorateExchange struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuorateExchangeSpec `json:"spec"`
	Status TopologyStatus      `json:"status,omitempty"`
}

// QuorateExchangeList is a list of exchanges.
//
// +kubebuilder:object:root=true
type QuorateExchangeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QuorateExchange `json:"items"`
}

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueDeletion is what happens to a queue when its object is deleted.
//
// +kubebuilder:validation:Enum=WhenEmpty;Always;Retain
type QueueDeletion string

// The values of QueueDeletion.
const (
	// QueueDeletionWhenEmpty deletes the queue once it has neither messages nor consumers; until then
	// the object stays, and a condition says what is in the way.
	QueueDeletionWhenEmpty QueueDeletion = "WhenEmpty"
	// QueueDeletionAlways deletes the queue with its messages.
	QueueDeletionAlways QueueDeletion = "Always"
	// QueueDeletionRetain leaves the queue in the broker.
	QueueDeletionRetain QueueDeletion = "Retain"
)

// QuorateQueueSpec describes a queue. The broker changes no queue that exists: to change limits and
// dead-lettering later, leave them to a QuoratePolicy.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="cluster is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.vhost == oldSelf.vhost",message="vhost is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",message="name is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="has(self.type) == has(oldSelf.type) && (!has(self.type) || self.type == oldSelf.type)",message="type is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="!(has(self.autoDelete) && self.autoDelete) || (has(self.type) && self.type == 'classic')",message="autoDelete needs type: classic"
type QuorateQueueSpec struct {
	// Cluster that the queue is in.
	Cluster ClusterReference `json:"cluster"`
	// VHost of the queue. It must exist.
	//
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VHost string `json:"vhost,omitempty"`
	// Name of the queue in the broker; empty: the name of this object.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`
	// Type of the queue: quorum or classic; empty: the default of the vhost.
	//
	// +optional
	// +kubebuilder:validation:Enum=quorum;classic
	Type string `json:"type,omitempty"`
	// AutoDelete deletes the queue when its last consumer is gone; classic queues only.
	//
	// +optional
	AutoDelete bool `json:"autoDelete,omitempty"`
	// Arguments of the declare, such as x-max-length. Whole numbers become 64-bit integers. The broker does
	// not change a queue that exists: the condition Drifted shows what differs.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Arguments *apiextensionsv1.JSON `json:"arguments,omitempty"`
	// Deletion is what happens to the queue when this object is deleted: WhenEmpty waits until it has
	// neither messages nor consumers, Always deletes it with its messages, Retain leaves it.
	//
	// +optional
	// +kubebuilder:default=WhenEmpty
	Deletion QueueDeletion `json:"deletion,omitempty"`
}

// QuorateQueueStatus is what was last seen of the queue. It has no figures, which would be written again
// with every message: docs/metrics.md says where they are.
type QuorateQueueStatus struct {
	TopologyStatus `json:",inline"`
	// Leader is the node that leads the queue.
	//
	// +optional
	Leader string `json:"leader,omitempty"`
	// Members are the nodes that have a copy of the queue.
	//
	// +optional
	// +listType=atomic
	Members []string `json:"members,omitempty"`
}

// QuorateQueue is a queue in a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qqueue,categories=quorate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="VHost",type=string,JSONPath=`.spec.vhost`
// +kubebuilder:printcolumn:name="Leader",type=string,JSONPath=`.status.leader`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuorateQueue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuorateQueueSpec   `json:"spec"`
	Status QuorateQueueStatus `json:"status,omitempty"`
}

// QuorateQueueList is a list of queues.
//
// +kubebuilder:object:root=true
type QuorateQueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QuorateQueue `json:"items"`
}

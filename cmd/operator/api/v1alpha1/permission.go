package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TopicPermission restricts the routing keys of a user at a topic exchange.
type TopicPermission struct {
	// Exchange that it is about, of type topic. It must exist.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Exchange string `json:"exchange"`
	// Write is a pattern of the routing keys that the user may publish with.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Write string `json:"write,omitempty"`
	// Read is a pattern of the routing keys that the user may bind with.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Read string `json:"read,omitempty"`
}

// QuoratePermissionSpec gives a user rights in a vhost by Perl-style patterns. An empty pattern
// matches nothing.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="cluster is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.vhost == oldSelf.vhost",message="vhost is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="self.user == oldSelf.user",message="user is immutable: make a new object"
type QuoratePermissionSpec struct {
	// Cluster that the permission is in.
	Cluster ClusterReference `json:"cluster"`
	// VHost of the permission. It must exist.
	//
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	VHost string `json:"vhost,omitempty"`
	// User is the user's name in the broker.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	User string `json:"user"`
	// Configure is a pattern of the names that the user may declare and delete.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Configure string `json:"configure,omitempty"`
	// Write is a pattern of the names that the user may publish to.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Write string `json:"write,omitempty"`
	// Read is a pattern of the names that the user may consume from.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Read string `json:"read,omitempty"`
	// Topics restrict the routing keys at topic exchanges.
	//
	// +optional
	// +listType=map
	// +listMapKey=exchange
	// +kubebuilder:validation:MaxItems=100
	Topics []TopicPermission `json:"topics,omitempty"`
	// Deletion is what happens to the permission when this object is deleted.
	//
	// +optional
	// +kubebuilder:default=Delete
	Deletion ObjectDeletion `json:"deletion,omitempty"`
}

// QuoratePermission is what a user may do in a vhost of a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qpermission,categories=quorate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="VHost",type=string,JSONPath=`.spec.vhost`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuoratePermission struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuoratePermissionSpec `json:"spec"`
	Status TopologyStatus        `json:"status,omitempty"`
}

// QuoratePermissionList is a list of permissions.
//
// +kubebuilder:object:root=true
type QuoratePermissionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QuoratePermission `json:"items"`
}

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// UserLimits limit what a user opens, does and declares; a missing field is no limit.
type UserLimits struct {
	// MaxConnections is how many connections the user may have open.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxConnections *int64 `json:"maxConnections,omitempty"`
	// MaxChannels is how many channels the user may have open.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxChannels *int64 `json:"maxChannels,omitempty"`
	// MaxConsumers is how many consumers the user may have.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxConsumers *int64 `json:"maxConsumers,omitempty"`
	// MaxMessageRate is how many messages the user may publish in a second.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxMessageRate *int64 `json:"maxMessageRate,omitempty"`
	// MaxByteRate is how many bytes of bodies the user may publish in a second.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxByteRate *int64 `json:"maxByteRate,omitempty"`
	// MaxQueues is how many queues that the user has declared there may be.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxQueues *int64 `json:"maxQueues,omitempty"`
	// MaxStoredBytes is how many bytes of bodies these queues may hold.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxStoredBytes *int64 `json:"maxStoredBytes,omitempty"`
}

// PasswordSource names the secret that has a user's password.
type PasswordSource struct {
	// Name of the Secret, in the namespace of this object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key of the password in the Secret.
	//
	// +optional
	// +kubebuilder:default=password
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// QuorateUserSpec describes a user.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="cluster is immutable: make a new object"
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",message="name is immutable: make a new object"
type QuorateUserSpec struct {
	// Cluster that the user is in.
	Cluster ClusterReference `json:"cluster"`
	// Name of the user in the broker; empty: the name of this object.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`
	// Password is where the user's password is; a change of it is followed. Without it the operator
	// makes a Secret, NAME-user, with the keys username and password.
	//
	// +optional
	Password *PasswordSource `json:"password,omitempty"`
	// Tags of the user, such as monitoring, management, policymaker and administrator.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Tags []string `json:"tags,omitempty"`
	// Limits of the user. The operator replaces all of them; without limits here the user has none.
	//
	// +optional
	Limits *UserLimits `json:"limits,omitempty"`
	// Deletion is what happens to the user when this object is deleted.
	//
	// +optional
	// +kubebuilder:default=Delete
	Deletion ObjectDeletion `json:"deletion,omitempty"`
}

// QuorateUserStatus is what was last seen of the user.
type QuorateUserStatus struct {
	TopologyStatus `json:",inline"`
	// Secret has the user's credentials: the keys username and password.
	//
	// +optional
	Secret string `json:"secret,omitempty"`
	// PasswordVersion is the resource version of the Secret whose password the broker has.
	//
	// +optional
	PasswordVersion string `json:"passwordVersion,omitempty"`
}

// QuorateUser is a user of a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=quser,categories=quorate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.secret`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuorateUser struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuorateUserSpec   `json:"spec"`
	Status QuorateUserStatus `json:"status,omitempty"`
}

// QuorateUserList is a list of users.
//
// +kubebuilder:object:root=true
type QuorateUserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QuorateUser `json:"items"`
}

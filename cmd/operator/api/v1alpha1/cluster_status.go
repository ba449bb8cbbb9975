package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of conditions of a QuorateCluster, beside Ready, Progressing and Degraded.
const (
	// ConditionReplicasEven: the number of nodes is even, and one less would tolerate as many losses.
	ConditionReplicasEven = "ReplicasEven"
	// ConditionUpgradeBlocked: a node has to change, and it is not safe to take it down now.
	ConditionUpgradeBlocked = "UpgradeBlocked"
	// ConditionUpgradeUnfinalized: all nodes run a newer version, and the former one can still be set.
	ConditionUpgradeUnfinalized = "UpgradeUnfinalized"
	// ConditionScaleDownBlocked: a node has to go, and the broker refuses to let it go.
	ConditionScaleDownBlocked = "ScaleDownBlocked"
	// ConditionScaleUpBlocked: a node has to come, and something of a former one is in its way.
	ConditionScaleUpBlocked = "ScaleUpBlocked"
	// ConditionReplaceBlocked: a node came with an empty volume, and its data cannot be given up.
	ConditionReplaceBlocked = "ReplaceBlocked"
	// ConditionStorageBlocked: the volumes cannot grow as asked.
	ConditionStorageBlocked = "StorageBlocked"
	// ConditionVolumesLeft: volume claims of removed nodes are still there.
	ConditionVolumesLeft = "VolumesLeft"
	// ConditionObjectsBlocked: an object of the cluster cannot be made: it is lost, somebody else has one of its name,
	// Kubernetes refuses it, or the specification makes none.
	ConditionObjectsBlocked = "ObjectsBlocked"
	// ConditionBackupFailing: the last scheduled backup that ended has failed, one is being repeated, or the last one could
	// not be begun. While it is false, its message names the last one that succeeded.
	ConditionBackupFailing = "BackupFailing"
	// ConditionUnreachable: the operator cannot ask the broker.
	ConditionUnreachable = "Unreachable"
	// ConditionHandsOff: a person has asked the operator to leave the cluster alone.
	ConditionHandsOff = "HandsOff"
)

// AnnotationHandsOff is on a QuorateCluster that the operator shall only look at: it neither makes, changes nor deletes anything of
// it until the annotation is taken away, or is "false". The value is the reason, for people.
const AnnotationHandsOff = Prefix + "hands-off"

// NodeStatus is what was last seen of a node.
type NodeStatus struct {
	// Name of the node, which is that of its pod.
	Name string `json:"name"`
	// Ready: the pod serves clients.
	Ready bool `json:"ready"`
	// Version that the node runs.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// State of the node as the others see it: running, draining, refused, silent, down, or the phase of
	// its start. Empty while the broker could not be asked, or does not know the node.
	//
	// +optional
	State string `json:"state,omitempty"`
	// Members of queues on the node.
	//
	// +optional
	Members int32 `json:"members,omitempty"`
	// Leaders of queues on the node.
	//
	// +optional
	Leaders int32 `json:"leaders,omitempty"`
	// Outdated: the node does not yet have what the specification asks for.
	//
	// +optional
	Outdated bool `json:"outdated,omitempty"`
}

// QuorateClusterStatus is what was last seen of a cluster. The operator decides nothing by it.
type QuorateClusterStatus struct {
	// ObservedGeneration is the generation of the specification that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is how many nodes there are now.
	//
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is how many of them serve clients.
	//
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Version that all nodes run; empty while they differ.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// FinalizedVersion is the version of stored state from which there is no way back.
	//
	// +optional
	FinalizedVersion int64 `json:"finalizedVersion,omitempty"`
	// Selector of the pods, for `kubectl scale` and autoscalers.
	//
	// +optional
	Selector string `json:"selector,omitempty"`
	// Step is what the operator does now, or waits for, in words.
	//
	// +optional
	Step string `json:"step,omitempty"`
	// Nodes of the cluster.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Operation of the broker that the operator waits for, such as the removal of a node.
	//
	// +optional
	Operation *OperationStatus `json:"operation,omitempty"`
	// Administrator is the Secret with the keys username and password as which the operator logs in.
	//
	// +optional
	Administrator string `json:"administrator,omitempty"`
	// LastBackup is when the last scheduled backup that succeeded was complete.
	//
	// +optional
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`
	// Conditions of the cluster.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// QuorateCluster is a cluster of broker nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=qcluster,categories=quorate
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Backup",type=date,JSONPath=`.status.lastBackup`,priority=1
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a cluster has at most 40 characters of a-z, 0-9 and -, and begins with a letter: names of pods begin with it"
type QuorateCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec   QuorateClusterSpec   `json:"spec,omitempty"`
	Status QuorateClusterStatus `json:"status,omitempty"`
}

// QuorateClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type QuorateClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QuorateCluster `json:"items"`
}

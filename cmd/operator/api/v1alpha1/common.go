package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Types of conditions that several kinds have.
const (
	// ConditionReady: the broker has what the specification asks for.
	ConditionReady = "Ready"
	// ConditionProgressing: the operator is changing something, or waits for something that comes by itself.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: something needs a person; the message says what and how.
	ConditionDegraded = "Degraded"
)

// ClusterReference names the QuorateCluster that an object is in.
type ClusterReference struct {
	// Name of the QuorateCluster.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// Namespace of the QuorateCluster; empty: that of this object. Another namespace must be among
	// spec.topology.allowedNamespaces of the QuorateCluster.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// TopologyStatus is the status of an object in a broker.
type TopologyStatus struct {
	// ObservedGeneration is the generation of the specification that the conditions are about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, and others that a kind explains.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

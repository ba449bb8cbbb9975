package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Annotations by which a person decides about a QuorateRebalance. The operator removes them once it has followed them.
const (
	// AnnotationApprove begins what was proposed. Its value is the hash of the proposal, or "true" for the one that is in
	// the status; a proposal that was made since is not approved by the hash of the former.
	AnnotationApprove = Prefix + "approve"
	// AnnotationCancel with the value "true" cancels a proposal, or a rebalance that is under way; what has moved stays
	// moved.
	AnnotationCancel = Prefix + "cancel"
	// AnnotationRefresh with the value "true" makes a new proposal.
	AnnotationRefresh = Prefix + "refresh"
)

// RebalancePhase is how far a QuorateRebalance is.
//
// +kubebuilder:validation:Enum=Pending;ProposalReady;Rebalancing;Done;Cancelled;Failed
type RebalancePhase string

// The values of RebalancePhase.
const (
	// RebalancePending: there is no proposal yet.
	RebalancePending RebalancePhase = "Pending"
	// RebalanceProposalReady: the proposal waits for approval.
	RebalanceProposalReady RebalancePhase = "ProposalReady"
	// RebalanceRebalancing: members and leaders are moving.
	RebalanceRebalancing RebalancePhase = "Rebalancing"
	// RebalanceDone: all moves that were possible were made.
	RebalanceDone RebalancePhase = "Done"
	// RebalanceCancelled: it was cancelled.
	RebalanceCancelled RebalancePhase = "Cancelled"
	// RebalanceFailed: the message of the condition Ready says why.
	RebalanceFailed RebalancePhase = "Failed"
)

// RebalanceScope is what a rebalance moves.
//
// +kubebuilder:validation:Enum=MembersAndLeaders;Leaders
type RebalanceScope string

// The values of RebalanceScope.
const (
	// RebalanceMembersAndLeaders moves members, which sends their messages over the network, and then leaders.
	RebalanceMembersAndLeaders RebalanceScope = "MembersAndLeaders"
	// RebalanceLeaders moves leaders alone.
	RebalanceLeaders RebalanceScope = "Leaders"
)

// RebalanceQueues select queues; without any field all.
type RebalanceQueues struct {
	// VHost of the queues; empty: all.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	VHost string `json:"vhost,omitempty"`
	// Pattern of names with *, ? and [a-z]; empty: all.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Pattern string `json:"pattern,omitempty"`
}

// QuorateRebalanceSpec asks for members and leaders of queues to be spread evenly over the nodes,
// once. For another run make another object, or refresh this one.
//
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster",message="cluster is immutable: make a new object"
type QuorateRebalanceSpec struct {
	// Cluster whose queues move.
	Cluster ClusterReference `json:"cluster"`
	// Queues to look at.
	//
	// +optional
	Queues RebalanceQueues `json:"queues,omitempty"`
	// Scope is what moves: MembersAndLeaders, or Leaders alone, which sends no messages over the network.
	//
	// +optional
	// +kubebuilder:default=MembersAndLeaders
	Scope RebalanceScope `json:"scope,omitempty"`
	// Approval: Manual waits for the annotation quorate.github.io/approve after the proposal, Automatic
	// begins at once.
	//
	// +optional
	// +kubebuilder:default=Manual
	// +kubebuilder:validation:Enum=Manual;Automatic
	Approval string `json:"approval,omitempty"`
}

// RebalanceProposal is what a rebalance would do.
type RebalanceProposal struct {
	// Hash names the proposal, for the annotation quorate.github.io/approve.
	Hash string `json:"hash"`
	// Moves is how many members and leaders would move.
	Moves int64 `json:"moves"`
	// Lines describe the first moves; at most 100.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Lines []string `json:"lines,omitempty"`
	// MadeAt is when the broker was asked.
	MadeAt metav1.Time `json:"madeAt"`
}

// OperationStatus is the progress of one of the broker's operations.
type OperationStatus struct {
	// ID by which `quoratectl operations watch` shows it.
	ID string `json:"id"`
	// Phase that it is in.
	//
	// +optional
	Phase string `json:"phase,omitempty"`
	// Done of Total units.
	//
	// +optional
	Done int64 `json:"done,omitempty"`
	// Total is 0 while it is unknown.
	//
	// +optional
	Total int64 `json:"total,omitempty"`
	// Unit of Done and Total, such as queues.
	//
	// +optional
	Unit string `json:"unit,omitempty"`
	// Detail is what it works on or waits for, in the broker's words.
	//
	// +optional
	Detail string `json:"detail,omitempty"`
}

// QuorateRebalanceStatus is how far a rebalance is.
type QuorateRebalanceStatus struct {
	TopologyStatus `json:",inline"`
	// Phase of the rebalance.
	//
	// +optional
	Phase RebalancePhase `json:"phase,omitempty"`
	// Proposal of the moves.
	//
	// +optional
	Proposal *RebalanceProposal `json:"proposal,omitempty"`
	// Operation of the broker that moves them.
	//
	// +optional
	Operation *OperationStatus `json:"operation,omitempty"`
}

// QuorateRebalance is one run that spreads queues evenly over the nodes of a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=qrebalance,categories=quorate
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Moves",type=integer,JSONPath=`.status.proposal.moves`
// +kubebuilder:printcolumn:name="Done",type=integer,JSONPath=`.status.operation.done`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type QuorateRebalance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuorateRebalanceSpec   `json:"spec"`
	Status QuorateRebalanceStatus `json:"status,omitempty"`
}

// QuorateRebalanceList is a list of rebalances.
//
// +kubebuilder:object:root=true
type QuorateRebalanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []QuorateRebalance `json:"items"`
}

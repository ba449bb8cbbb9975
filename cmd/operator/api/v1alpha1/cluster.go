package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VolumeDeletion is what happens to volumes that are not needed any more.
//
// +kubebuilder:validation:Enum=Retain;Delete
type VolumeDeletion string

// The values of VolumeDeletion.
const (
	// VolumeDeletionRetain leaves volume claims to people.
	VolumeDeletionRetain VolumeDeletion = "Retain"
	// VolumeDeletionDelete deletes volume claims with what is on them.
	VolumeDeletionDelete VolumeDeletion = "Delete"
)

// Decision is who decides.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type Decision string

// The values of Decision.
const (
	// Automatic: the operator does it as soon as it is safe.
	Automatic Decision = "Automatic"
	// Manual: a person does it.
	Manual Decision = "Manual"
)

// QuorateClusterSpec describes a cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.tls) == has(oldSelf.tls)",message="tls cannot be switched on or off: nodes with and without it do not reach each other, so no roll can do it; docs/kubernetes-operator.md says what can"
type QuorateClusterSpec struct {
	// Replicas is the number of nodes: 1, 3, 5 or 7. An even number tolerates the loss of no more nodes
	// than the odd one below it; the operator accepts it with a warning.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	Replicas int32 `json:"replicas,omitempty"`
	// Image of the nodes.
	//
	// +optional
	// +kubebuilder:default={}
	Image ImageSpec `json:"image,omitempty"`
	// Storage of each node.
	//
	// +optional
	// +kubebuilder:default={}
	Storage StorageSpec `json:"storage,omitempty"`
	// Deletion is what happens to the volume claims and secrets when this object is deleted: Retain
	// leaves them, and a new object of the same name takes them up again; Delete deletes them with all
	// messages.
	//
	// +optional
	// +kubebuilder:default=Retain
	Deletion VolumeDeletion `json:"deletion,omitempty"`
	// Resources of each node. A node keeps its memory below nine tenths of the limit by itself.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// TLS between nodes and for clients; without it connections are in plain text.
	//
	// +optional
	TLS *TLSSpec `json:"tls,omitempty"`
	// Config has the nodes' own settings, nested as in their file (docs/configuration.md), over those
	// that the operator writes. A change rolls through the nodes one by one.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Config *apiextensionsv1.JSON `json:"config,omitempty"`
	// Secrets that exist already, instead of those that the operator makes.
	//
	// +optional
	// +kubebuilder:default={}
	Secrets SecretsSpec `json:"secrets,omitempty"`
	// Upgrade is how the nodes go to another version.
	//
	// +optional
	// +kubebuilder:default={}
	Upgrade UpgradeSpec `json:"upgrade,omitempty"`
	// LostVolumes is who gives up the data of a node that comes with an empty volume: Automatic, once
	// the broker confirms that nothing would be lost, or Manual.
	//
	// +optional
	// +kubebuilder:default=Automatic
	LostVolumes Decision `json:"lostVolumes,omitempty"`
	// DrainSeconds is how long a node may take to hand its leaders over before it stops.
	//
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=120
	DrainSeconds int32 `json:"drainSeconds,omitempty"`
	// Pod has settings of the nodes' pods.
	//
	// +optional
	// +kubebuilder:default={}
	Pod PodSpec `json:"pod,omitempty"`
	// Service for clients.
	//
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitempty"`
	// NetworkPolicy of the nodes.
	//
	// +optional
	// +kubebuilder:default={}
	NetworkPolicy NetworkPolicySpec `json:"networkPolicy,omitempty"`
	// Monitoring by the Prometheus operator and Grafana.
	//
	// +optional
	// +kubebuilder:default={}
	Monitoring MonitoringSpec `json:"monitoring,omitempty"`
	// Backup copies the cluster regularly; without it there are none.
	//
	// +optional
	Backup *BackupSpec `json:"backup,omitempty"`
	// Topology is about the objects that describe what is in the cluster.
	//
	// +optional
	// +kubebuilder:default={}
	Topology TopologySpec `json:"topology,omitempty"`
}

// ImageSpec names the image of the nodes.
type ImageSpec struct {
	// Repository of the image.
	//
	// +optional
	// +kubebuilder:default="quorate/quorate"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Repository string `json:"repository,omitempty"`
	// Version is the tag of the image; empty: the version of the operator. A change rolls through the
	// nodes one by one; until the new version is finalised, the former one can be set again.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_][A-Za-z0-9._-]*)?$`
	Version string `json:"version,omitempty"`
	// PullPolicy of the image.
	//
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// PullSecrets are names of Secrets.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// StorageSpec describes the volume of each node.
//
// +kubebuilder:validation:XValidation:rule="(has(self.storageClassName) ? self.storageClassName : \"\") == (has(oldSelf.storageClassName) ? oldSelf.storageClassName : \"\")",message="storageClassName is immutable: Kubernetes does not change the class of a claim"
type StorageSpec struct {
	// Size of the volume, such as 100Gi. It can grow if the class allows it. A size that no volume has grown to
	// yet can be taken back; Kubernetes does not shrink volumes.
	//
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?(k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$`
	// +kubebuilder:validation:MaxLength=32
	Size string `json:"size,omitempty"`
	// StorageClassName of the volume; empty: the default of Kubernetes.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
	// WhenScaled is what happens to the volume claim of a node that was removed by lowering replicas.
	// What was on it has moved to other nodes; the broker never takes it back.
	//
	// +optional
	// +kubebuilder:default=Retain
	WhenScaled VolumeDeletion `json:"whenScaled,omitempty"`
}

// SecretsSpec names Secrets that exist already.
//
// +kubebuilder:validation:XValidation:rule="(has(self.gossip) ? self.gossip : \"\") == (has(oldSelf.gossip) ? oldSelf.gossip : \"\")",message="gossip is immutable: nodes with different keys do not hear each other, so no roll can change it"
type SecretsSpec struct {
	// Gossip has the key gossip-key: base64 of 32 bytes; empty: the operator makes NAME-gossip.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Gossip string `json:"gossip,omitempty"`
	// Administrator has the keys username and password of an administrator, as whom the operator logs
	// in and with whom a new cluster is founded; empty: the operator makes NAME-operator.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Administrator string `json:"administrator,omitempty"`
	// Definitions has the key definitions.json, which nodes import at their start if it has changed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Definitions string `json:"definitions,omitempty"`
}

// UpgradeSpec is how the nodes go to another version, and to other settings.
type UpgradeSpec struct {
	// Finalize is who completes an upgrade, after which there is no way back: Automatic as soon as all
	// nodes run the new version, or Manual by `quoratectl upgrade finalize`.
	//
	// +optional
	// +kubebuilder:default=Automatic
	Finalize Decision `json:"finalize,omitempty"`
	// Paused keeps the operator from taking further nodes to what the specification asks for. Nodes that
	// have it stay as they are.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`
	// AllowPauses lets a node restart that has the only member of a queue; the queue stands still
	// meanwhile. A cluster of one node always restarts.
	//
	// +optional
	AllowPauses bool `json:"allowPauses,omitempty"`
}

// PodSpec has settings of the nodes' pods.
type PodSpec struct {
	// Labels of the pods, beside those of the operator.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the pods.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// NodeSelector of the pods.
	//
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of the pods.
	//
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// PriorityClassName of the pods.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// AntiAffinity: two nodes never share a machine if it is required, and may if it is preferred.
	//
	// +optional
	// +kubebuilder:default=required
	// +kubebuilder:validation:Enum=required;preferred
	AntiAffinity string `json:"antiAffinity,omitempty"`
	// ZoneSpread is what happens when nodes cannot be spread evenly over zones.
	//
	// +optional
	// +kubebuilder:default=ScheduleAnyway
	// +kubebuilder:validation:Enum=ScheduleAnyway;DoNotSchedule
	ZoneSpread string `json:"zoneSpread,omitempty"`
	// Env has more variables of the container.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`
}

// ServiceSpec describes the Service for clients.
type ServiceSpec struct {
	// Type of the Service.
	//
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type string `json:"type,omitempty"`
	// Annotations of the Service.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NetworkPolicySpec describes who may reach the nodes.
type NetworkPolicySpec struct {
	// Disabled leaves out the NetworkPolicy.
	//
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// Clients may reach gRPC and AMQP, as peers of a NetworkPolicy; empty: everybody. The operator
	// always may.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Clients []NetworkPolicyPeer `json:"clients,omitempty"`
}

// NetworkPolicyPeer selects pods that may reach the nodes.
type NetworkPolicyPeer struct {
	// PodSelector selects pods, of this namespace unless namespaceSelector is set.
	//
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// NamespaceSelector selects namespaces.
	//
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// MonitoringSpec is how Prometheus and Grafana look at the nodes.
type MonitoringSpec struct {
	// Namespace that may reach metrics and the management API.
	//
	// +optional
	// +kubebuilder:default=monitoring
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Monitor is what gathers metrics: none, pod (a PodMonitor) or service (a ServiceMonitor).
	//
	// +optional
	// +kubebuilder:default=none
	// +kubebuilder:validation:Enum=none;pod;service
	Monitor string `json:"monitor,omitempty"`
	// Interval between two scrapes.
	//
	// +optional
	// +kubebuilder:default="15s"
	// +kubebuilder:validation:Pattern=`^([0-9]+(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	Interval string `json:"interval,omitempty"`
	// Labels of the monitor and the rules, as Prometheus selects them.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Rules makes a PrometheusRule with alerts.
	//
	// +optional
	Rules bool `json:"rules,omitempty"`
	// Dashboard makes a ConfigMap with boards for Grafana.
	//
	// +optional
	Dashboard bool `json:"dashboard,omitempty"`
}

// TopologySpec is about the objects that describe what is in the cluster.
type TopologySpec struct {
	// AllowedNamespaces are the other namespaces whose objects may describe what is in this cluster, and
	// what of it. Objects of the cluster's own namespace may describe all of it, unless an entry has that
	// namespace.
	//
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=256
	AllowedNamespaces []NamespaceScope `json:"allowedNamespaces,omitempty"`
}

// NamespaceScope is what objects of a namespace may describe in a cluster. What it does not name, they may not.
type NamespaceScope struct {
	// Namespace of the objects; "*": all other namespaces that have no entry of their own.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// VHosts in which the objects may describe queues, exchanges, bindings, policies and permissions. A name
	// that ends with * stands for all names that begin with what is before it.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	VHosts []string `json:"vhosts,omitempty"`
	// Users whose password, tags and limits the objects may set, whoever made them. A name that ends with *
	// stands for all names that begin with what is before it.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Users []string `json:"users,omitempty"`
	// Tags that these users may have. With administrator among them, the namespace has the whole cluster:
	// its users can do everything, and its objects may be operator policies and rebalances.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Tags []string `json:"tags,omitempty"`
}

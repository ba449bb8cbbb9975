package v1alpha1

// InCluster names the cluster that the queue is in.
func (q *QuorateQueue) InCluster() ClusterReference { return q.Spec.Cluster }

// Common is the part of the status that all kinds have.
func (q *QuorateQueue) Common() *TopologyStatus { return &q.Status.TopologyStatus }

// InCluster names the cluster that the exchange is in.
func (x *QuorateExchange) InCluster() ClusterReference { return x.Spec.Cluster }

// Common is the part of the status that all kinds have.
func (x *QuorateExchange) Common() *TopologyStatus { return &x.Status }

// InCluster names the cluster that the binding is in.
func (b *QuorateBinding) InCluster() ClusterReference { return b.Spec.Cluster }

// Common is the part of the status that all kinds have.
func (b *QuorateBinding) Common() *TopologyStatus { return &b.Status.TopologyStatus }

// InCluster names the cluster that the policy is in.
func (p *QuoratePolicy) InCluster() ClusterReference { return p.Spec.Cluster }

// Common is the part of the status that all kinds have.
func (p *QuoratePolicy) Common() *TopologyStatus { return &p.Status }

// InCluster names the cluster that the user is in.
func (u *QuorateUser) InCluster() ClusterReference { return u.Spec.Cluster }

// Common is the part of the status that all kinds have.
func (u *QuorateUser) Common() *TopologyStatus { return &u.Status.TopologyStatus }

// InCluster names the cluster that the permission is in.
func (p *QuoratePermission) InCluster() ClusterReference { return p.Spec.Cluster }

// Common is the part of the status that all kinds have.
func (p *QuoratePermission) Common() *TopologyStatus { return &p.Status }

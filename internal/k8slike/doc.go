// Package k8slike runs nodes as Kubernetes would run the manifests of deploy/k8s: each pod in a
// network and mount namespace of its own, as user 65532 on a root that cannot be written, with the
// base's node.yaml, an address that changes at every restart, and names that appear late or still
// lead to the former address. It has only tests.
//
// The tests need Linux, root and iproute2; otherwise they are skipped with the reason. All networks
// and mounts live in the namespaces of one process of the test: when that process ends, the kernel
// removes them.
package k8slike

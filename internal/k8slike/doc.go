// Package k8slike runs nodes as Kubernetes would run the manifests of deploy/k8s: each pod
// in a network and mount namespace of its own, as user 65532 on a root that cannot be
// written, with the base's node.yaml, an address that changes at every restart, and names
// that appear late or still lead to the former address. There is nothing but tests in it.
//
// The tests need Linux, root and iproute2; they say why they are skipped otherwise. The
// whole world lives in the namespaces of one process of the test's own: when that process
// ends, however it ends, the kernel takes everything away.
package k8slike

// Package e2e tests the deployment on a real Kubernetes: the API server, controllers, scheduler, kubelets, kube-proxy
// and CoreDNS of package kube, and nodes of the broker in pods. It has only tests. They need Linux and root, and
// `make e2e-k8s` builds what they run.
package e2e

// Package kube runs Kubernetes for tests, without containers: etcd, the API server with TLS and RBAC,
// the controller manager, and on demand nodes, with the scheduler, kubelets, kube-proxy and CoreDNS.
// All of them are the real programs, built from source (make kube); only what runs containers is
// package cri, and only what makes volumes is package storage.
//
// A control plane alone (StartControlPlane) listens on loopback and needs no rights. A cluster with
// nodes (Start) needs Linux and root, and namespaces that Inside makes: pods, services and nodes have
// addresses there that the machine does not see, and all of it ends with the test.
package kube

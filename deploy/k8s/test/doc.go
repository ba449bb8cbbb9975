// Package k8s holds the tests of the manifests in deploy/k8s: the base and every
// overlay are built in process as kustomize does and decoded strictly into the
// Kubernetes API types, so a misspelt or misplaced field fails here and not on a
// cluster. It is a module of its own: none of this reaches the product's go.mod.
package k8s

// Package k8s holds the tests of what runs Quorate on Kubernetes: the chart in deploy/helm, and the
// base and overlays in deploy/k8s. They are rendered in process as Helm and kustomize do, decoded
// strictly into the Kubernetes API types, so a misspelt or misplaced field fails here and not on a
// cluster, and compared with one another. Rules and boards for Prometheus and Grafana are tested too. It
// is a module of its own: none of this reaches the product's go.mod.
package k8s

// Package k8s tests the deployment on Kubernetes: the chart in deploy/helm, and the base and
// overlays in deploy/k8s. The tests render them in process as Helm and kustomize do, and compare
// them with one another. They decode the results strictly into the Kubernetes API types, so a
// misspelt or misplaced field fails here and not on a cluster. They also test what
// Prometheus's rules and Grafana's dashboards ask for. The package is a module of its own: its dependencies do not reach the
// product's go.mod.
package k8s

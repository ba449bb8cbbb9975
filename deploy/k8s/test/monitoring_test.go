package k8s

import (
	"encoding/json"
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
)

// The manifests bring all rules and boards, and the monitor finds the port with metrics.
func TestMonitoring(t *testing.T) {
	for name, o := range map[string]*objects{
		"overlay": build(t, "../overlays/production"),
		"chart":   buildChart(t, "quorate", values(t, chartValues["chart-production"]...)),
	} {
		if o.rules == nil || o.board == nil {
			t.Fatalf("%s: rules %v, boards %v", name, o.rules, o.board)
		}
		want := rules(t)
		if len(o.rules.Spec.Groups) != len(want) {
			t.Fatalf("%s: %d groups of rules, want %d", name, len(o.rules.Spec.Groups), len(want))
		}
		for i, group := range o.rules.Spec.Groups {
			if group.Name != want[i].Name || len(group.Rules) != len(want[i].Rules) {
				t.Errorf("%s: group %s has %d rules, want %s with %d", name, group.Name, len(group.Rules), want[i].Name, len(want[i].Rules))
			}
		}
		if len(o.board.Data) != len(boards()) {
			t.Errorf("%s: there are %d boards, want %d", name, len(o.board.Data), len(boards()))
		}
		for _, b := range boards() {
			var shown struct{ Title string }
			if err := json.Unmarshal([]byte(o.board.Data["quorate-"+b.file+".json"]), &shown); err != nil || shown.Title != b.title {
				t.Errorf("%s: board %s is called %q, %v", name, b.file, shown.Title, err)
			}
		}
		monitor, _ := o.all["PodMonitor/quorate"].(*monitoringv1.PodMonitor)
		if monitor == nil || !selects(t, &monitor.Spec.Selector, o.set.Spec.Template.Labels) || o.set.Spec.Template.Labels[monitor.Spec.JobLabel] != "quorate" {
			t.Fatalf("%s: the monitor %+v does not select the pods %v", name, monitor, o.set.Spec.Template.Labels)
		}
		for _, e := range monitor.Spec.PodMetricsEndpoints {
			if !slices.ContainsFunc(node(t, o).Ports, func(p corev1.ContainerPort) bool { return e.Port != nil && p.Name == *e.Port }) {
				t.Errorf("%s: the monitor asks port %v, which the container has not", name, e.Port)
			}
		}
	}
}

// A ServiceMonitor takes the headless Service alone, or each node would be asked twice.
func TestServiceMonitor(t *testing.T) {
	o := buildChart(t, "quorate", values(t, chartValues["chart-everything"]...))
	monitor, _ := o.all["ServiceMonitor/quorate"].(*monitoringv1.ServiceMonitor)
	if monitor == nil || monitor.Labels["release"] != "prometheus" {
		t.Fatalf("monitor %+v", monitor)
	}
	var found []string
	for name, s := range o.services {
		if selects(t, &monitor.Spec.Selector, s.Labels) {
			found = append(found, name)
		}
		if s.Labels[monitor.Spec.JobLabel] != "quorate" {
			t.Errorf("service %s has no label %s", name, monitor.Spec.JobLabel)
		}
	}
	if !slices.Equal(found, []string{"quorate-headless"}) {
		t.Errorf("the monitor selects the services %v", found)
	}
}

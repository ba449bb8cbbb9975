package k8s

import (
	"regexp"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
)

const operatorDir = "../operator/"

// The operator's PrometheusRule is made of the file of rules.
func TestOperatorRules(t *testing.T) {
	_, groups, found := strings.Cut(readFile(t, rulesDir+operatorRules+".yaml"), "\ngroups:\n")
	if !found {
		t.Fatal("the file has no groups")
	}
	want := "# Made from deploy/prometheus/operator-rules.yaml by make rewrite.\n" +
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: quorate-operator\nspec:\n" +
		regexp.MustCompile(`(?m)^(.)`).ReplaceAllString("groups:\n"+groups, "  $1")
	wantFile(t, operatorDir+"monitoring/rules.yaml", want)
	o, _, err := strictDecoder(t).Decode([]byte(want), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, is := o.(*monitoringv1.PrometheusRule); !is || len(r.Spec.Groups) != 1 || len(r.Spec.Groups[0].Rules) < 4 {
		t.Errorf("the object is %+v", o)
	}
}

// Rules about the operator ask for metrics that its page explains.
func TestNamesOfOperatorRules(t *testing.T) {
	known := map[string]bool{}
	for _, name := range regexp.MustCompile("(?m)^\\| `(quorate_operator_[a-z_]+)`").FindAllStringSubmatch(readFile(t, "../../../docs/kubernetes-operator.md"), -1) {
		known[name[1]] = true
	}
	if len(known) < 4 {
		t.Fatalf("the page has the metrics %v", known)
	}
	for _, group := range rulesIn(t, operatorRules+".yaml") {
		for _, r := range group.Rules {
			if unknown := unknownNames(t, r.Expr, known); len(unknown) > 0 {
				t.Errorf("%s asks for %v, which the operator does not export", r.Alert, unknown)
			}
		}
	}
}

// The operator's monitor finds its pods and their port, and leaves the label namespace as it is.
func TestOperatorMonitor(t *testing.T) {
	o, _, err := strictDecoder(t).Decode([]byte(readFile(t, operatorDir+"monitoring/pod-monitor.yaml")), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	monitor, is := o.(*monitoringv1.PodMonitor)
	if !is || len(monitor.Spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("the object is %+v", o)
	}
	if o, _, err = strictDecoder(t).Decode([]byte(documents(readFile(t, operatorDir+"deployment.yaml"))[0]), nil, nil); err != nil {
		t.Fatal(err)
	}
	deployment, is := o.(*appsv1.Deployment)
	if !is {
		t.Fatalf("the object is a %T", o)
	}
	template, endpoint := deployment.Spec.Template, monitor.Spec.PodMetricsEndpoints[0]
	if !selects(t, &monitor.Spec.Selector, template.Labels) || !endpoint.HonorLabels {
		t.Errorf("the monitor is %+v", monitor.Spec)
	}
	has := false
	for _, p := range template.Spec.Containers[0].Ports {
		has = has || endpoint.Port != nil && p.Name == *endpoint.Port
	}
	if !has {
		t.Errorf("the monitor asks port %v", endpoint.Port)
	}
}

package spec_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/spec"
)

func json(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }

// says checks that the faults are those wanted, each by the field and a part of its text.
func says(t *testing.T, what string, faults field.ErrorList, want ...string) {
	t.Helper()
	if len(faults) != len(want) {
		t.Errorf("%s: %v; want %d faults", what, faults, len(want))
		return
	}
	for i, w := range want {
		path, text, _ := strings.Cut(w, ": ")
		if faults[i].Field != path || !strings.Contains(faults[i].Error(), text) {
			t.Errorf("%s: %v; want %s with %q", what, faults[i], path, text)
		}
	}
}

// Faults name the field of the specification, in the broker's words.
func TestQueues(t *testing.T) {
	for _, c := range []struct {
		what, name, kind, arguments string
		autoDelete                  bool
		want                        []string
	}{
		{"nothing to object to", "q", "quorum", `{"x-max-length": 5, "x-dead-letter-exchange": ""}`, false, nil},
		{"two at once", "q", "", `{"x-max-length": -1, "x-overflow": "drop"}`, false, []string{
			"spec.arguments[x-max-length]: out of range", "spec.arguments[x-overflow]: want one of drop-head",
		}},
		{"a classic argument of a quorum queue", "q", "quorum", `{"x-max-priority": 5}`, false, []string{"spec.arguments[x-max-priority]: not for quorum queues"}},
		{"the same where the vhost decides", "q", "", `{"x-max-priority": 5}`, false, nil},
		{"an auto-delete quorum queue", "q", "quorum", `{}`, true, []string{"spec.autoDelete: quorum queues need auto_delete = false"}},
		{"a reserved name", "amq.q", "", `{}`, false, []string{"spec: reserved"}},
		{"a name too long", strings.Repeat("x", 256), "", `{}`, false, []string{"spec.name: the limit is 255 bytes"}},
		{"a type among the arguments", "q", "", `{"x-queue-type": "quorum"}`, false, []string{"spec.arguments[x-queue-type]: spec.type"}},
		{"a stream", "q", "stream", `{}`, false, []string{"spec.type: there are no streams"}},
		{"a number beyond 64 bits", "q", "", `{"x-own": {"n": 99999999999999999999}}`, false, []string{"spec.arguments.x-own.n: beyond 64 bits"}},
		{"a routing key without exchange", "q", "", `{"x-dead-letter-routing-key": "k"}`, false, []string{"spec.arguments[x-dead-letter-routing-key]: x-dead-letter-exchange"}},
	} {
		q := &v1alpha1.QuorateQueue{ObjectMeta: meta("object"), Spec: v1alpha1.QuorateQueueSpec{Name: c.name, Type: c.kind, AutoDelete: c.autoDelete, Arguments: json(c.arguments)}}
		out, faults := spec.ReadQueue(q)
		says(t, c.what, faults, c.want...)
		if out.VHost != "/" || out.Name != c.name {
			t.Errorf("%s: %+v", c.what, out)
		}
	}
	q := &v1alpha1.QuorateQueue{ObjectMeta: meta("object"), Spec: v1alpha1.QuorateQueueSpec{Arguments: json(`{"x-max-legnth": 5, "own": 1}`)}}
	if out, _ := spec.ReadQueue(q); out.Name != "object" {
		t.Errorf("%+v: want the object's name", out)
	}
	if w := spec.WarnQueue(q); len(w) != 1 || !strings.Contains(w[0], "spec.arguments[x-max-legnth]") || !strings.Contains(w[0], "x-max-length?") {
		t.Errorf("%q", w)
	}
}

func TestExchanges(t *testing.T) {
	for _, c := range []struct {
		what, name, kind, arguments string
		want                        []string
	}{
		{"nothing to object to", "x", "topic", `{"alternate-exchange": "y"}`, nil},
		{"a type that nobody knows", "x", "topc", `{}`, []string{"spec.type: topic"}},
		{"an alternate exchange that is no name", "x", "", `{"alternate-exchange": 5}`, []string{"spec.arguments[alternate-exchange]: string"}},
		{"a delayed exchange without a type", "x", "x-delayed-message", `{}`, []string{"spec.arguments[x-delayed-type]: "}},
		{"a reserved name", "amq.topic", "topic", `{}`, []string{"spec: reserved"}},
	} {
		x := &v1alpha1.QuorateExchange{ObjectMeta: meta("object"), Spec: v1alpha1.QuorateExchangeSpec{Name: c.name, Type: c.kind, Arguments: json(c.arguments)}}
		_, faults := spec.ReadExchange(x)
		says(t, c.what, faults, c.want...)
	}
}

func TestBindings(t *testing.T) {
	b := &v1alpha1.QuorateBinding{ObjectMeta: meta("b"), Spec: v1alpha1.QuorateBindingSpec{RoutingKey: strings.Repeat("x", 256)}}
	_, faults := spec.ReadBinding(b)
	says(t, "all wrong", faults, "spec.source: default exchange", "spec.destination: queue", "spec.routingKey: 256 bytes")
	b.Spec = v1alpha1.QuorateBindingSpec{Source: "x", Destination: "y", DestinationType: "exchange", Arguments: json(`{"x-match": "all"}`)}
	out, faults := spec.ReadBinding(b)
	says(t, "right", faults)
	if !out.ToExchange || len(out.Arguments) != 1 {
		t.Errorf("%+v", out)
	}
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		what, pattern, applyTo, definition string
		operator                           bool
		want                               []string
	}{
		{"nothing to object to", "^q", "", `{"max-length": 5}`, false, nil},
		{"a pattern that does not compile", "(", "", `{"max-length": 5}`, false, []string{"spec.pattern: ("}},
		{"a key with a typing error", "^q", "", `{"max-legnth": 5}`, false, []string{`spec.definition[max-legnth]: did you mean "max-length"?`}},
		{"a key that operators cannot set", "^q", "", `{"dead-letter-exchange": "x"}`, true, []string{"spec.definition[dead-letter-exchange]: operator policies"}},
		{"a value out of range", "^q", "", `{"max-length": -1}`, false, []string{"spec.definition[max-length]: out of range"}},
		{"an empty definition", "^q", "", `{}`, false, []string{"spec.definition: is empty"}},
		{"queues of no kind", "^q", "streams", `{"max-length": 5}`, false, []string{"spec.applyTo: want all, queues"}},
		{"a pattern too long", strings.Repeat("x", 5000), "", `{"max-length": 5}`, false, []string{"spec.pattern: 5000 bytes"}},
	} {
		p := &v1alpha1.QuoratePolicy{ObjectMeta: meta("p"), Spec: v1alpha1.QuoratePolicySpec{
			Pattern: c.pattern, ApplyTo: c.applyTo, Operator: c.operator, Definition: *json(c.definition),
		}}
		_, faults := spec.ReadPolicy(p)
		says(t, c.what, faults, c.want...)
	}
}

func TestAccess(t *testing.T) {
	u := &v1alpha1.QuorateUser{ObjectMeta: meta("u"), Spec: v1alpha1.QuorateUserSpec{Name: "a:b", Tags: []string{"z", "a"}}}
	out, faults := spec.ReadUser(u)
	says(t, "a colon", faults, `spec.name: contains ":"`)
	if strings.Join(out.Tags, ",") != "a,z" {
		t.Errorf("%q", out.Tags)
	}
	p := &v1alpha1.QuoratePermission{ObjectMeta: meta("p"), Spec: v1alpha1.QuoratePermissionSpec{
		Configure: "(", Write: ".*", Read: "[", Topics: []v1alpha1.TopicPermission{{Exchange: "x", Write: "*"}, {}},
	}}
	_, faults = spec.ReadPermission(p)
	says(t, "four at once", faults, "spec.user: name a user", "spec.configure: (", "spec.read: [", "spec.topics[0].write: *", "spec.topics[1].exchange: topic exchange")
}

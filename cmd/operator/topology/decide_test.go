package topology

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/broker"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/spec"
	"github.com/quorate/quorate/cmd/operator/table"
)

func TestDecide(t *testing.T) {
	differs := []table.Difference{{Field: "type"}}
	for _, c := range []struct {
		what    string
		found   bool
		differs []table.Difference
		mends   bool
		want    step
	}{
		{"as wanted", true, nil, false, nothing},
		{"missing", false, nil, false, apply},
		{"a policy that somebody changed", true, differs, true, apply},
		{"a queue with other arguments", true, differs, false, showDrift},
		{"topic permissions without a permission", false, differs, true, apply},
	} {
		if got := decide(c.found, c.differs, c.mends); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// What was carried out, or compared, for the present specification needs no call of its own.
func TestSettled(t *testing.T) {
	for _, c := range []struct {
		reason     string
		generation int64
		want       bool
	}{
		{reasonInBroker, 2, true},
		{reasonDrifted, 2, true},
		{reasonInBroker, 1, false},
		{reasonUnavailable, 2, false},
		{reasonRefused, 2, false},
	} {
		var s v1alpha1.TopologyStatus
		verdict{ready: c.reason == reasonInBroker, reason: c.reason}.put(&s, c.generation)
		if got := reconciled(&s, 2); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if reconciled(&v1alpha1.TopologyStatus{}, 1) {
		t.Error("a new object is settled")
	}
}

// What has just failed is tried soon, what fails for hours seldom.
func TestPatience(t *testing.T) {
	now := time.Now()
	for age, want := range map[time.Duration]time.Duration{
		0: shortestWait, time.Minute: 15 * time.Second, time.Hour: longestWait, -time.Hour: shortestWait,
	} {
		if got := patience(now.Add(-age), now); got != want {
			t.Errorf("after %v: %v, want %v", age, got, want)
		}
	}
	if got := patience(time.Time{}, now); got != shortestWait {
		t.Errorf("%v", got)
	}
}

// A verdict about a cluster that does not answer says so, and does not change with every look.
func TestTroubled(t *testing.T) {
	var s v1alpha1.TopologyStatus
	for _, c := range []struct {
		err             error
		reason, message string
	}{
		{&inventory.UnavailableError{Cause: errors.New("no route"), Wait: time.Minute}, reasonUnavailable, "the cluster does not answer: no route"},
		{&inventory.UnavailableError{Cause: &broker.NotReadyError{Reason: "NoNodes", Message: "no pod runs"}, Wait: time.Second}, "NoNodes", "no pod runs"},
		{&client.Error{Class: client.NotFound, Text: "NOT_FOUND: vhost"}, reasonRefused, "NOT_FOUND: vhost"},
	} {
		v := troubled(c.err, &s, time.Now())
		if v.reason != c.reason || v.after < time.Second {
			t.Errorf("%v: %+v", c.err, v)
		}
		if c.reason != "NoNodes" && v.message != c.message {
			t.Errorf("%v: %q", c.err, v.message)
		}
	}
}

// The oldest object owns what several name; those of one second are ordered by their names.
func TestOlder(t *testing.T) {
	at := metav1.Now()
	made := func(ns, name string, age time.Duration) object {
		return &v1alpha1.QuorateQueue{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, CreationTimestamp: metav1.NewTime(at.Add(-age))}}
	}
	for _, c := range []struct {
		a, b object
		want bool
	}{
		{made("b", "b", time.Hour), made("a", "a", 0), true},
		{made("a", "a", 0), made("b", "b", time.Hour), false},
		{made("a", "b", 0), made("b", "a", 0), true},
		{made("a", "a", 0), made("a", "b", 0), true},
	} {
		if got := older(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: %v", c.a.GetName(), c.b.GetName(), got)
		}
	}
}

// What a deleted object stands for stays for one that lives; of several that go, the oldest deletes it.
func TestHeir(t *testing.T) {
	at := metav1.Now()
	made := func(name string, age time.Duration, dying bool) object {
		o := &v1alpha1.QuorateQueue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at.Add(-age))}}
		if dying {
			o.DeletionTimestamp = &at
		}
		return o
	}
	me := made("me", time.Hour, true)
	for what, c := range map[string]struct {
		others []object
		want   string
	}{
		"alone":                       {nil, ""},
		"a younger one lives":         {[]object{made("x", 0, false)}, "x"},
		"an older one goes too":       {[]object{made("x", 2*time.Hour, true)}, "x"},
		"a younger one goes too":      {[]object{made("x", 0, true)}, ""},
		"one lives beside an old one": {[]object{made("x", 2*time.Hour, true), made("y", 0, false)}, "y"},
	} {
		got := ""
		if h := heirOf(me, c.others); h != nil {
			got = h.GetName()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// Only what the broker compares on a redeclare is a difference of a queue.
func TestQueueDifferences(t *testing.T) {
	arguments := func(json string) (q queue) {
		q.Queue = spec.Queue{Name: "q"}
		q.Arguments, _ = table.Parse([]byte(json))
		return q
	}
	for _, c := range []struct {
		wanted string
		found  inventory.Queue
		want   string
	}{
		{`{"x-queue-type": "quorum", "x-max-length": 5}`, inventory.Queue{
			Type: "quorum", Durable: true, Arguments: table.FromClient(client.Table{"x-queue-type": "quorum", "x-max-length": int32(5)}),
		}, ""},
		{`{}`, inventory.Queue{Type: "quorum", Durable: true, Arguments: table.FromClient(client.Table{"x-queue-type": "quorum"})}, ""},
		{
			`{"x-queue-type": "quorum"}`,
			inventory.Queue{Type: "classic", AutoDelete: true},
			`type: wanted "quorum", found "classic"; durable: wanted true, found false; autoDelete: wanted false, found true`,
		},
		{`{"x-max-length": 5}`, inventory.Queue{Type: "quorum", Durable: true}, `arguments[x-max-length]: wanted 5, found absent`},
		{`{"x-own": 1}`, inventory.Queue{Type: "quorum", Durable: true}, ""},
	} {
		if got := table.Text(arguments(c.wanted).differences(c.found)); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.wanted, got, c.want)
		}
	}
}

func TestPermissionDifferences(t *testing.T) {
	p := permission{spec.Permission{User: "u", Read: ".*", Topics: []v1alpha1.TopicPermission{{Exchange: "x", Write: "a"}, {Exchange: "y"}}}}
	if d := p.differences(p.rights()); len(d) > 0 {
		t.Errorf("%v", d)
	}
	got := table.Text(p.differences(inventory.Rights{Granted: true, Read: ".*", Write: "w", Topics: map[string]inventory.Topic{"x": {Write: "b"}, "z": {}}}))
	want := `write: wanted "", found "w"; topics[x]: wanted write "a", read "", found write "b", read ""; ` +
		`topics[y]: wanted write "", read "", found absent; topics[z]: wanted absent, found write "", read ""`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestUserDifferences(t *testing.T) {
	five, none := int64(5), int64(-1)
	u := user{spec.User{Name: "u", Tags: []string{"a", "b"}, Limits: client.UserLimits{MaxQueues: &five}}}
	if d := u.differences(inventory.User{Tags: []string{"b", "a"}, HasPassword: true, Limits: client.UserLimits{MaxQueues: &five, MaxChannels: &none}}); len(d) > 0 {
		t.Errorf("%v", d)
	}
	got := table.Text(u.differences(inventory.User{Tags: []string{"a"}}))
	want := `tags: wanted "a,b", found "a"; password: wanted one, found none; limits.maxQueues: wanted 5, found no limit`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

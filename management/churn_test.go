package management_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// churn returns what the overview counts of how clients and queues come and go, and its rates by the same names.
func (w web) churn() (counts, rates map[string]float64) {
	w.t.Helper()
	var overview struct {
		Churn map[string]any `json:"churn_rates"`
	}
	w.heard("/api/overview", "guest", "guest", &overview)
	counts, rates = map[string]float64{}, map[string]float64{}
	for field, value := range overview.Churn {
		if name, is := strings.CutSuffix(field, "_details"); is {
			details, _ := value.(map[string]any)
			rates[name], _ = details["rate"].(float64)
		} else {
			counts[field], _ = value.(float64)
		}
	}
	return counts, rates
}

// What any node says of how clients and queues come and go is of all nodes, whoever does it, and however a queue goes.
func TestChurnOfAllNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	w, other := serve(t, c.Broker(2), c.Name(2)), serve(t, c.Broker(1), c.Name(1))
	cl, err := client.Dial(t.Context(), client.Config{Addresses: []string{c.Addrs()[2]}, FixedAddresses: true, ProbeTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	_, made := cl.PutVHost(t.Context(), client.VHost{Name: "team"})
	_, allowed := cl.SetPermission(t.Context(), client.Permission{User: "guest", VHost: "team", Configure: ".*", Write: ".*", Read: ".*"})
	if err := errors.Join(made, allowed); err != nil {
		t.Fatal(err)
	}
	before, _ := w.churn()
	rose := map[string]bool{}
	look := func(node web) map[string]float64 {
		counts, rates := node.churn()
		for name, rate := range rates {
			rose[name] = rose[name] || rate > 0
		}
		for name := range counts {
			counts[name] -= before[name]
		}
		return counts
	}

	first, _ := open(t, c.AMQP(0), "first") // with a channel each
	second, _ := open(t, c.AMQP(1), "second")
	one, errOne := first.Channel()
	two, errTwo := second.Channel()
	if err := errors.Join(errOne, errTwo); err != nil {
		t.Fatal(err)
	}
	look(w) // so that no two samples are too far apart for a rate
	var errs [9]error
	_, errs[0] = one.QueueDeclare("kept", true, false, false, false, nil)
	_, errs[1] = two.QueueDeclare("kept", true, false, false, false, nil)        // is there
	_, errs[2] = two.QueueDeclarePassive("kept", true, false, false, false, nil) // only asks
	_, errs[3] = one.QueueDeclare("going", true, false, false, false, nil)
	_, errs[4] = one.QueueDelete("going", false, false, false)
	_, errs[5] = two.QueueDeclare("own", false, false, true, false, nil) // goes with its connection
	for i, name := range []string{"a", "b"} {                            // go with their vhost
		_, errs[6+i] = cl.DeclareQueue(t.Context(), client.Queue{VHost: "team", Name: name})
	}
	errs[8] = second.Close()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.DeleteVHost(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}

	want := map[string]float64{
		"connection_created": 2, "connection_closed": 1, "channel_created": 4, "channel_closed": 2,
		"queue_declared": 6, "queue_created": 5, "queue_deleted": 4,
	}
	for _, node := range []web{w, other} {
		testcluster.Poll(t, "all is counted", func() error {
			if counts := look(node); !maps.Equal(counts, want) {
				return fmt.Errorf("%v came since, want %v", counts, want)
			}
			return nil
		})
	}
	for name := range want {
		if !rose[name] {
			t.Errorf("%s had no rate while it rose", name)
		}
	}
}

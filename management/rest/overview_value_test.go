package rest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/management/stats"
)

// The overview adds up what all nodes count, and what clients were given in four ways.
func TestCounted(t *testing.T) {
	node := func(counters map[string]uint64) stats.Node {
		return stats.Node{NodeStatus: operators.NodeStatus{Counters: counters}}
	}
	s := &stats.Cluster{
		Rates: stats.Rates{Publish: 1, Confirm: 2, Deliver: 3, Ack: 4, Redeliver: 5, Returned: 6, Dropped: 7, Consumed: 8, ConsumedAutoAck: 9, Got: 10, GotAutoAck: 11},
		Nodes: []stats.Node{
			node(map[string]uint64{"published": 1, "confirmed": 2, "unroutable_returned": 3, "unroutable_dropped": 4, "consumed": 10, "consumed_auto_ack": 20, "got": 30, "got_auto_ack": 40}),
			node(map[string]uint64{"published": 100, "consumed": 100}),
			node(nil), // does not answer
		},
	}
	got, err := json.Marshal(counted(s, stats.Counts{Ack: 12, Redeliver: 13}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"ack":12,"ack_details":{"rate":4},"confirm":2,"confirm_details":{"rate":2},"deliver":110,"deliver_details":{"rate":8},` +
		`"deliver_get":200,"deliver_get_details":{"rate":3},"deliver_no_ack":20,"deliver_no_ack_details":{"rate":9},` +
		`"drop_unroutable":4,"drop_unroutable_details":{"rate":7},"get":30,"get_details":{"rate":10},"get_no_ack":40,"get_no_ack_details":{"rate":11},` +
		`"publish":101,"publish_details":{"rate":1},"redeliver":13,"redeliver_details":{"rate":5},"return_unroutable":3,"return_unroutable_details":{"rate":6}}`
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// How clients and queues come and go is added up over all nodes, under RabbitMQ's names.
func TestChurn(t *testing.T) {
	s := &stats.Cluster{Churn: map[string]float64{}}
	want := object{}
	for i, name := range stats.ChurnCounters() {
		s.Churn[name] = float64(i)
		field := []string{"connection_created", "connection_closed", "channel_created", "channel_closed", "queue_declared", "queue_created", "queue_deleted"}[i]
		want[field], want[field+"_details"] = uint64(100*i+11), object{"rate": float64(i)}
	}
	for _, each := range []uint64{1, 10} {
		counters := map[string]uint64{"published": 7}
		for i, name := range stats.ChurnCounters() {
			counters[name] = each + 50*uint64(i)
		}
		s.Nodes = append(s.Nodes, stats.Node{NodeStatus: operators.NodeStatus{Counters: counters}})
	}
	if got := churn(s); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The kinds of a node's memory add up to what is resident, and none is below 0, however the figures were taken one after
// another.
func TestMemoryOfNode(t *testing.T) {
	for _, x := range []struct {
		m   operators.Memory
		sum uint64
	}{
		{operators.Memory{Resident: 100, Heap: 40, Bodies: 10, Tail: 5, Stacks: 8, Runtime: 7, Unused: 5}, 100},
		{operators.Memory{Resident: 50, Heap: 40, Bodies: 10, Tail: 5, Stacks: 8, Runtime: 7, Unused: 5}, 60}, // some of it is not resident
		{operators.Memory{Heap: 40, Bodies: 30, Tail: 20}, 50},                                                // the caches grew meanwhile
	} {
		var sum uint64
		for kind, v := range ofMemory(&x.m) {
			switch v := v.(type) {
			case uint64:
				sum += v
			case int:
				if v != 0 {
					t.Errorf("%s is %d", kind, v)
				}
			}
		}
		if sum != x.sum {
			t.Errorf("%+v: %d in all, want %d", x.m, sum, x.sum)
		}
	}
}

package rest

import (
	"reflect"
	"testing"

	"github.com/quorate/quorate/broker/queues"
	"github.com/quorate/quorate/management/stats"
)

// What lists are sorted by without building rows is what the rows would have had.
func TestQueueValue(t *testing.T) {
	figures := &queues.Stats{
		Ready: 1, Unsettled: 2, Delayed: 4, Backlog: 8, ReadyBytes: 16, UnsettledBytes: 32, DelayedBytes: 64, BacklogBytes: 128, Consumers: 3, OldestMessageAgeMs: 5,
	}
	rates := &stats.Rates{Publish: 1, Confirm: 2, Deliver: 3, Get: 4, Redeliver: 5, Ack: 6}
	for _, x := range []struct {
		q     queues.Queue
		brief queues.Brief
	}{
		{
			queues.Queue{Name: "q", VHost: "v", State: "running", Leader: "a", Stats: figures},
			queues.Brief{
				VHost: "v", State: "running", Leader: "a", Known: true, Ready: 1, Unsettled: 2, Delayed: 4, Backlog: 8, Bytes: 240, Consumers: 3, OldestAgeMs: 5,
			},
		},
		{queues.Queue{Name: "q", VHost: "v", State: "down"}, queues.Brief{VHost: "v", State: "down"}},
	} {
		for _, path := range []string{
			"vhost", "leader", "node", "state", "messages", "messages_ready", "messages_unacknowledged", "messages_delayed", "messages_dlx",
			"message_bytes", "consumers", "oldest_message_age_ms", "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate",
			"message_stats.ack_details.rate",
		} {
			of := rates
			if !x.brief.Known { // the collector has none of a queue without a leader
				of = nil
			}
			want := ofQueue(&x.q, of).at(path)
			got, known := queueValue(&x.brief, func(uint64) *stats.Rates { return of }, path)
			if known && !reflect.DeepEqual(got, want) || !known && x.brief.Known {
				t.Errorf("%s: %v (%t), want %v", path, got, known, want)
			}
		}
	}
	if v, known := queueValue(&queues.Brief{Known: true}, func(uint64) *stats.Rates { return rates }, "arguments"); known {
		t.Errorf("arguments: %v", v)
	}
}

// Rows are sorted by values of any kinds: those that are missing first, then numbers, then the rest as text; those that are
// equal keep their places.
func TestOrderOfRows(t *testing.T) {
	values := []any{"b", nil, 7, uint64(3), "a", 2.5, nil, true, int64(-1), uint64(7)}
	all := rows{count: len(values), name: func(int) string { return "" }, build: func(i int) object { return object{"x": object{"y": values[i]}} }}
	chosen := make([]int, len(values))
	for i := range chosen {
		chosen[i] = i
	}
	all.order(chosen, "x.y")
	if want := []int{1, 6, 8, 5, 3, 2, 9, 4, 0, 7}; !reflect.DeepEqual(chosen, want) {
		t.Errorf("%v, want %v", chosen, want)
	}
}

package rest

import (
	"reflect"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/management/stats"
)

// What lists are sorted by without building rows is what the rows would have had.
func TestQueueValue(t *testing.T) {
	figures := &broker.QueueStats{
		Ready: 1, Unsettled: 2, Delayed: 4, Backlog: 8, ReadyBytes: 16, UnsettledBytes: 32, DelayedBytes: 64, BacklogBytes: 128, Consumers: 3, OldestMessageAgeMs: 5,
	}
	rates := &stats.Rates{Publish: 1, Confirm: 2, Deliver: 3, Get: 4, Redeliver: 5, Ack: 6}
	for _, q := range []broker.Queue{
		{Name: "q", VHost: "v", Policy: "p", State: "running", Leader: "a", Stats: figures},
		{Name: "q", VHost: "v"},
	} {
		for _, path := range []string{
			"vhost", "policy", "leader", "node", "state", "messages", "messages_ready", "messages_unacknowledged", "messages_delayed", "messages_dlx",
			"message_bytes", "consumers", "oldest_message_age_ms", "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate",
			"message_stats.ack_details.rate",
		} {
			want := ofQueue(&q, rates).at(path)
			got, known := queueValue(&q, func(uint64) *stats.Rates { return rates }, path)
			if known && !reflect.DeepEqual(got, want) || !known && q.Stats != nil {
				t.Errorf("%s: %v (%t), want %v", path, got, known, want)
			}
		}
	}
	if v, known := queueValue(&broker.Queue{Stats: figures}, func(uint64) *stats.Rates { return rates }, "arguments"); known {
		t.Errorf("arguments: %v", v)
	}
}

package cases

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// figure is a field that a queue shows, by name, and what it must be; nil: anything but the
// zero value.
type figure struct {
	name string
	want any
}

// shows compares fields of a message: one that it does not have is a fault.
func (k *kase) shows(of any, figures []figure) {
	k.Helper()
	v := reflect.Indirect(reflect.ValueOf(of))
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		fields[v.Type().Field(i).Tag.Get("api")] = v.Field(i)
	}
	for _, f := range figures {
		field, ok := fields[f.name]
		switch {
		case !ok:
			k.Errorf("%T has no field %s", of, f.name)
		case f.want == nil && field.IsZero():
			k.Errorf("%s is not there", f.name)
		case f.want != nil:
			k.same(f.name, fmt.Sprint(field.Interface()), f.want)
		}
	}
}

// ST-1, ST-2, ST-3.
func TestFigures(t *testing.T) {
	k := begin(t, "a queue shows its figures, at the moment of the question")
	q := k.queue("q", dlx(k.name("missing"), alo(), args{
		"x-max-length": int64(8), "x-delayed-retry-type": "failed", "x-delayed-retry-min": int64(3_600_000), "x-delayed-retry-max": int64(3_600_000),
	}))
	k.policy("limit", args{"delivery-limit": int64(5)})
	k.eventually("the policy is in force", func() error {
		if k.stats(q).DeliveryLimit != 5 {
			return errNotYet
		}
		return nil
	})
	none, err := k.client.Get(k.ctx, "", q, false)
	k.must(err)
	k.same("a message of an empty queue", none == nil, true)
	_, err = k.try(q, "late", expires("1"))
	k.must(err)
	k.eventually("it expires", func() error {
		if k.stats(q).Expired == 0 {
			return errNotYet
		}
		return nil
	})
	k.publish(q, "aa", "bb", "cc")
	_, err = k.try(q, "dd", func(m *client.Message) { m.Priority = client.Priority(9) })
	k.must(err)
	for _, d := range []client.Decision{ack, fail, reject, nackRequeue} { // dd, aa, bb, cc
		k.settle(k.get(q, false), d)
	}
	c := k.consume(q, 1)
	held := k.receive(c, 1)
	k.publish(q, "ee", "ff", "gg", "hh", "ii")
	if _, err := k.try(q, "too much"); err == nil {
		k.Error("a message above the limit is stored")
	}
	m, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: q})
	k.must(err)
	k.shows(m, []figure{
		{"leader", nil},
		{"members", nil},
		{"online", nil},
		{"state", "running"},
		{"policy", k.name("limit")},
		{"operator_policy", ""},
		{"effective_policy_definition", nil},
		{"effective_arguments", nil},
		{"raft", nil},
	})
	k.shows(m.Raft, []figure{{"term", nil}, {"commit_index", nil}, {"applied_index", nil}, {"last_index", nil}})
	k.shows(m.Stats, []figure{
		{"messages", "9"},
		{"messages_ready", "5"},
		{"messages_unacknowledged", "1"},
		{"messages_ready_returned", "0"},
		{"messages_delayed", "1"},
		{"messages_dlx", "2"},
		{"messages_by_priority", nil},
		{"message_bytes", "20"},
		{"message_bytes_ready", "10"},
		{"message_bytes_unacknowledged", "2"},
		{"message_bytes_delayed", "2"},
		{"message_bytes_dlx", "6"},
		{"consumers", "1"},
		{"consumer_capacity", "0"},
		{"delivery_limit", "5"},
		{"delayed_retry", "failed"},
		{"next_delayed_at_ms", nil},
		{"published", "10"},
		{"confirmed", "10"},
		{"rejected", "1"},
		{"delivered", "5"},
		{"redelivered", "1"},
		{"get", "4"},
		{"get_empty", "1"},
		{"acked", "1"},
		{"returned", "2"},
		{"returned_failed", "1"},
		{"expired", "1"},
		{"dropped", "0"},
		{"dead_lettered", nil},
		{"discarded", nil},
		{"dead_letter_confirmed", "0"},
		{"dead_letter_dedup_hits", "0"},
		{"delivery_limit_hits", "0"},
		{"consumer_timeouts", "0"},
	})
	k.same("by priority", m.Stats.MessagesByPriority, map[uint32]uint64{4: 5})
	k.same("dead-lettered", m.Stats.DeadLettered, map[string]uint64{"expired": 1, "rejected": 1})
	k.eventually("why the backlog waits, and since when the oldest messages do", func() error {
		s := k.stats(q)
		if s.LastDeadLetterError == "" || len(s.DeadLettersWaiting) == 0 || s.OldestMessageAge == 0 ||
			s.OldestDeadLetterAge == 0 {
			return fmt.Errorf("%w: %v", errNotYet, s)
		}
		return nil
	})
	k.must(held[0].Ack())
	k.receive(c, 1)
}

// ST-2: what ends at the delivery limit or takes too long is counted.
func TestFiguresOfFailures(t *testing.T) {
	k := begin(t, "deliveries that fail too often, or last too long, are counted")
	limited := k.queue("limited", args{"x-delivery-limit": int64(0)})
	k.publish(limited, "x")
	k.settle(k.get(limited, false), fail)
	k.shows(k.stats(limited), []figure{{"delivery_limit_hits", "1"}, {"dropped", "1"}, {"messages", "0"}, {"delivery_limit", "0"}, {"delayed_retry", "disabled"}})
	slow := k.queue("slow", nil)
	k.publish(slow, "x")
	k.receive(k.consume(slow, 1, timeout(100*time.Millisecond)), 1)
	k.ready(slow, 1)
	k.shows(k.stats(slow), []figure{{"consumer_timeouts", "1"}, {"returned", "1"}, {"returned_failed", "0"}, {"messages_ready_returned", "1"}})
	idle := k.queue("idle", nil)
	k.consume(idle, 1)
	k.eventually("a consumer that waits", func() error {
		if k.stats(idle).ConsumerCapacity != 1 {
			return errNotYet
		}
		return nil
	})
}

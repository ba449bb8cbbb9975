package metrics_test

import (
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/latency"
	"github.com/quorate/quorate/metrics"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

// node is a node whose queues a test moves.
type node struct {
	queues          []metrics.Queue
	positions       map[uint64]metrics.Position
	confirms, syncs latency.Histogram
}

func (n *node) sources() metrics.Sources {
	return metrics.Sources{
		Node: "a", Cluster: "c", Version: "v",
		Queues: func() iter.Seq[metrics.Queue] { return slices.Values(n.queues) },
		Gateway: func() metrics.Gateway {
			return metrics.Gateway{
				Published: 7, Alarm: true, Blocked: 1, Consumed: 21, ConsumedAutoAck: 22, Got: 23, GotAutoAck: 24,
				Waiting: map[string]uint64{"full": 3}, Retries: map[string]uint64{"full": 4}, Lost: map[string]uint64{"no_exchange": 5},
				Limited: metrics.Limited{Held: 31, Holding: 32, Refusals: map[string]uint64{"maxlen": 33}},
				Quotas:  []metrics.QuotaCount{{Scope: "user", Quota: "max-message-rate", Reached: 8, Held: 1500 * time.Millisecond}}, QuotaWaiting: 2,
				Audit:          []metrics.AuditCount{{Operation: "user.put", Outcome: "refused", Count: 6}},
				QueuesDeclared: 9, QueuesCreated: 8, QueuesDeleted: 3, ChannelsOpened: 35, ChannelsClosed: 36,
			}
		},
		Incoming: func() metrics.Incoming {
			return metrics.Incoming{Limit: 70, By: map[string]metrics.IncomingBy{"amqp": {Bytes: 3}, "grpc": {Bytes: 4, Waiting: 5}}}
		},
		Outgoing: func() metrics.Outgoing { return metrics.Outgoing{Limit: 71, Bytes: 8, Waiting: 9, Refused: 10} },
		Tracing:  func() metrics.Tracing { return metrics.Tracing{Exported: 8, Full: 9, Failed: 10} },
		Pace:     func() metrics.Pace { return metrics.Pace{Holding: 6, Holds: 7, Held: 1500 * time.Millisecond} },
		Exports: func() metrics.Exports {
			return metrics.Exports{Running: 2, Bytes: 11, Rate: 12, Slowed: map[string]uint64{"syncs": 13}}
		},
		Listener: func() metrics.Listener { return metrics.Listener{Connections: 2, ChannelsFailed: 34} },
		Memory: func() metrics.Memory {
			return metrics.Memory{Used: 30, Limit: 50, High: 40, BodiesLimit: 5, TailLimit: 6}
		},
		Links: func() metrics.Links {
			return metrics.Links{Up: 1, Down: 2, Around: 1, Unsteady: 1, Detours: 4, Reconnects: 3, Stuck: 6, Starved: 0.25}
		},
		Clock: func() metrics.Clock {
			return metrics.Clock{
				Steps: 2, Jumps: 1, Confirmed: true, Limit: time.Second / 2, Error: -time.Second, QueueAhead: time.Hour,
				Offsets: map[string]time.Duration{"a": -time.Second, "b": time.Millisecond},
			}
		},
		Log:     func() (wal.Stats, bool) { return wal.Stats{Segments: 9}, true },
		Members: func() (open, hibernated int) { return 10, 20 },

		LeadersSpread: func() uint64 { return 7 },
		Replaced:      func() uint64 { return 2 },
		Refused:       func() map[string]int { return map[string]int{"store": 1, "forgotten": 0} },
		Versions:      func() (finalised, reads int) { return 1, 2 },
		CertificateEnds: func() map[string]time.Time {
			return map[string]time.Time{"client": time.Unix(2e9, 0), "peer": time.Unix(3e9, 0)}
		},
		Logins: func() map[string]metrics.Logins {
			return map[string]metrics.Logins{"internal": {Accepted: 4, Refused: 3, Unavailable: 2}}
		},
		IssuerKeys: func() (metrics.IssuerKeys, bool) {
			return metrics.IssuerKeys{Keys: 2, Age: time.Minute, Failures: 1}, true
		},
		Positions: func() iter.Seq2[uint64, metrics.Position] {
			return func(yield func(uint64, metrics.Position) bool) {
				for uid, p := range n.positions {
					if !yield(uid, p) {
						return
					}
				}
			}
		},
		Confirms: &n.confirms, Syncs: &n.syncs,
		Gates: func() map[string]gate.Stats {
			return map[string]gate.Stats{"clients": {
				Connections: 1, Limit: 8, Unauthenticated: 2, Admitted: 3, CrowdedOut: 4, Refused: 5, Scarce: 6, Late: 7,
			}}
		},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func queue(uid uint64, vhost, name string, o quorumq.Overview) metrics.Queue {
	return metrics.Queue{UID: uid, VHost: vhost, Name: name, Figures: &o}
}

// scrape returns the lines of figures whose names begin with quorate_ or rabbitmq_.
func scrape(t *testing.T, h http.Handler, query string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return regexp.MustCompile(`(?m)^(quorate|rabbitmq)_.*$`).FindAllString(w.Body.String(), -1)
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no line %s in\n%s", line, strings.Join(got, "\n"))
		}
	}
}

func TestNode(t *testing.T) {
	n := &node{queues: []metrics.Queue{
		queue(1, "/", "a", quorumq.Overview{Ready: 2, OldestReady: 1000, Now: 1 << 60}),
		queue(2, "/", "b", quorumq.Overview{Ready: 3, Full: true}),
	}}
	wantLines(t, scrape(t, metrics.New(n.sources()).Node(), ""),
		`quorate_info{cluster="c",node="a",version="v"} 1`,
		`quorate_queues_led 2`,
		`quorate_queue_messages_ready 5`,
		`rabbitmq_queue_messages_ready 5`,
		`quorate_queue_full 1`,
		`quorate_queue_oldest_message_age_seconds 1.152921504606846e+15`,
		`quorate_messages_routed_total 7`,
		`quorate_grpc_unauthenticated_held 6`,
		`quorate_grpc_unauthenticated_holds_total 7`,
		`quorate_grpc_unauthenticated_held_seconds_total 1.5`,
		`quorate_alarm_memory 1`,
		`quorate_dead_letters_waiting{cause="full"} 3`,
		`quorate_dead_letter_retries_total{cause="full"} 4`,
		`quorate_dead_letter_copies_lost_total{cause="no_exchange"} 5`,
		`quorate_queues_dead_letter_blocked 1`,
		`quorate_audit_events_total{operation="user.put",outcome="refused"} 6`,
		`rabbitmq_connections 2`, `rabbitmq_queues_declared_total 9`, `rabbitmq_queues_created_total 8`, `rabbitmq_queues_deleted_total 3`,
		`rabbitmq_channels_opened_total 35`, `rabbitmq_channels_closed_total 36`,
		`quorate_messages_delivered_total{ack="manual",way="consume"} 21`, `quorate_messages_delivered_total{ack="auto",way="consume"} 22`,
		`rabbitmq_global_messages_delivered_get_manual_ack_total{ack="manual",way="get"} 23`,
		`rabbitmq_global_messages_delivered_get_auto_ack_total{ack="auto",way="get"} 24`,
		`rabbitmq_global_messages_dead_lettered_expired_total{reason="expired",strategy="at_least_once"} 0`,
		`rabbitmq_identity_info{rabbitmq_cluster="c",rabbitmq_endpoint="aggregated",rabbitmq_node="a"} 1`,
		`quorate_links_up 1`, `quorate_version_finalized 1`, `quorate_version_readable 2`,
		`quorate_links_down 2`,
		`quorate_links_detour 1`,
		`quorate_detours 4`,
		`quorate_link_reconnects_total 3`,
		`quorate_link_resets_total 6`,
		`quorate_links_unsteady 1`,
		`quorate_processor_starvation_ratio 0.25`,
		`quorate_clock_steps_total 2`, `quorate_clock_jumps_total 1`, `quorate_clock_confirmed 1`, `quorate_clock_limit_seconds 0.5`,
		`quorate_clock_error_seconds -1`, `quorate_clock_queue_ahead_seconds 3600`,
		`quorate_clock_offset_seconds{node="a"} -1`, `quorate_clock_offset_seconds{node="b"} 0.001`,
		`quorate_log_segments 9`,
		`quorate_queue_members{state="awake"} 10`,
		`quorate_queue_members{state="hibernated"} 20`,
		`quorate_leaders_spread_total 7`, `quorate_nodes_replaced_total 2`, `quorate_peers_refused{reason="store"} 1`,
		`quorate_tls_certificate_expiry_timestamp_seconds{listener="client"} 2e+09`,
		`quorate_tls_certificate_expiry_timestamp_seconds{listener="peer"} 3e+09`,
		`quorate_logins_total{backend="internal",outcome="accepted"} 4`, `quorate_logins_total{backend="internal",outcome="unavailable"} 2`,
		`quorate_oauth_keys 2`, `quorate_oauth_keys_age_seconds 60`, `quorate_oauth_key_fetch_failures_total 1`,
		`quorate_gate_connections{gate="clients"} 1`, `quorate_gate_unauthenticated{gate="clients"} 2`,
		`quorate_gate_admitted_total{gate="clients"} 3`, `quorate_gate_crowded_out_total{gate="clients"} 4`,
		`quorate_gate_refused_total{gate="clients"} 5`, `quorate_gate_descriptors_short_total{gate="clients"} 6`,
		`quorate_gate_late_total{gate="clients"} 7`, `quorate_gate_connections_limit{gate="clients"} 8`,
		`quorate_publishes_held_total 31`, `quorate_publishes_waiting 32`, `quorate_message_refusals_total{cause="maxlen"} 33`,
		`quorate_amqp_channels_failed_total 34`,
	)
}

// Counters of a node count what its queues did while it led them, and never go back.
func TestCountersOfMovingQueues(t *testing.T) {
	const rejected = `quorate_dead_letters_total{reason="rejected",strategy="at_least_once"} `
	discarded := func(n uint64) (o quorumq.Overview) {
		o.Enqueued = n
		o.Discarded[2][quorumq.ReasonRejected] = n
		return o
	}
	old := queue(5, "/", "old", discarded(100))
	n := &node{queues: []metrics.Queue{old}}
	h := metrics.New(n.sources()).Node()
	for _, step := range []struct {
		what   string
		queues []metrics.Queue
		want   string
	}{
		{"what was before the first scrape does not count", []metrics.Queue{old}, "0"},
		{"it counts on", []metrics.Queue{queue(5, "/", "old", discarded(103))}, "3"},
		{"a new queue counts from its beginning", []metrics.Queue{queue(5, "/", "old", discarded(104)), queue(9, "/", "new", discarded(2))}, "6"},
		{"a queue goes", []metrics.Queue{queue(9, "/", "new", discarded(2))}, "6"},
		{"it comes back: what others counted does not count", []metrics.Queue{queue(9, "/", "new", discarded(3)), queue(5, "/", "old", discarded(1000))}, "7"},
		{"and goes on", []metrics.Queue{queue(5, "/", "old", discarded(1001))}, "8"},
	} {
		n.queues = step.queues
		if got := scrape(t, h, ""); !slices.Contains(got, rejected+step.want) || !slices.Contains(got, "quorate_queue_enqueued_total "+step.want) {
			t.Errorf("%s: want %s in\n%s", step.what, step.want, strings.Join(got, "\n"))
		}
	}
}

func TestQueues(t *testing.T) {
	n := &node{queues: []metrics.Queue{
		queue(1, "/", "orders", quorumq.Overview{Ready: 2, Backlog: 8}),
		queue(2, "v", "orders", quorumq.Overview{Ready: 3}),
		queue(3, "/", "orders.dlq", quorumq.Overview{Ready: 4}),
	}}
	h := metrics.New(n.sources()).Queues()
	ready := func(q url.Values) (lines []string) {
		for _, line := range scrape(t, h, q.Encode()) {
			if strings.HasPrefix(line, "quorate_queue_messages_ready{") {
				lines = append(lines, strings.TrimPrefix(line, "quorate_queue_messages_ready"))
			}
		}
		return lines
	}
	const root, v, dlq = `{queue="orders",vhost="/"} 2`, `{queue="orders",vhost="v"} 3`, `{queue="orders.dlq",vhost="/"} 4`
	for _, c := range []struct {
		query url.Values
		want  []string
	}{
		{nil, []string{dlq, root, v}},
		{url.Values{"vhost": {"v"}}, []string{v}},
		{url.Values{"queue": {"orders"}}, []string{root, v}},
		{url.Values{"queue": {".*dlq"}, "vhost": {"/"}}, []string{dlq}},
	} {
		got := ready(c.query)
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.query, got, c.want)
		}
	}
	wantLines(t, scrape(t, h, ""), `quorate_dead_letter_backlog_messages{queue="orders",vhost="/"} 8`, "quorate_metrics_queues_left_out 0")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?queue=(", nil))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `queue = "("`) {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// Of RabbitMQ's families for queues, those that are asked for are shown under its names.
func TestDetailed(t *testing.T) {
	n := &node{queues: []metrics.Queue{
		queue(1, "/", "orders", quorumq.Overview{Ready: 2, Consumers: 5, Gets: 7}),
		queue(2, "v", "orders", quorumq.Overview{Ready: 3}),
		queue(3, "/", "orders.dlq", quorumq.Overview{Ready: 4}),
	}}
	h := metrics.New(n.sources()).Detailed()
	lines := scrape(t, h, "family=queue_coarse_metrics&family=queue_delivery_metrics&vhost=/")
	wantLines(t, lines, `rabbitmq_detailed_queue_messages_ready{queue="orders",vhost="/"} 2`, `rabbitmq_detailed_queue_get_total{queue="orders",vhost="/"} 7`)
	for _, line := range lines {
		if strings.Contains(line, "consumers") || strings.Contains(line, `"v"`) {
			t.Errorf("%s was not asked for", line)
		}
	}
	wantLines(t, scrape(t, h, ""), `rabbitmq_detailed_queue_consumers{queue="orders",vhost="/"} 5`, `rabbitmq_detailed_queue_messages_ready{queue="orders",vhost="v"} 3`)
	for _, line := range scrape(t, h, "queue=.*%5C.dlq") {
		if strings.Contains(line, `queue="orders"`) {
			t.Errorf("%s is of a queue that was not asked for", line)
		}
	}
	wantLines(t, scrape(t, h, "queue=.*%5C.dlq"), `rabbitmq_detailed_queue_messages_ready{queue="orders.dlq",vhost="/"} 4`)
	for query, want := range map[string]string{"family=none": "queue_metrics", "queue=(": `queue = "("`} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d: %s", query, w.Code, w.Body)
		}
	}
}

// The positions of logs are added up so that what RabbitMQ's dashboards show of them is right: rates of terms and commits,
// which do not go back when members close, and the distances between positions.
func TestPositions(t *testing.T) {
	n := &node{positions: map[uint64]metrics.Position{3: {Term: 5, Commit: 100, Last: 103, Snapshot: 60}}}
	h := metrics.New(n.sources()).Node()
	check := func(want ...string) {
		t.Helper()
		wantLines(t, scrape(t, h, ""), want...)
	}
	check(`quorate_raft_commits_total 0`, `quorate_raft_terms_total 0`, `quorate_raft_uncommitted_entries 3`, `quorate_raft_log_entries 43`,
		`rabbitmq_raft_last_written_index 3`, `rabbitmq_raft_snapshot_index -40`)
	n.positions = map[uint64]metrics.Position{3: {Term: 6, Commit: 110, Last: 110, Snapshot: 110}, 4: {Term: 1, Commit: 2, Last: 4}}
	check(`rabbitmq_raft_commit_index 12`, `rabbitmq_raft_term 2`, `rabbitmq_raft_last_written_index 14`, `rabbitmq_raft_snapshot_index 10`)
	n.positions = nil
	check(`rabbitmq_raft_commit_index 12`, `rabbitmq_raft_term 2`, `rabbitmq_raft_last_written_index 12`, `quorate_raft_log_entries 0`)
}

// What took long is shown as histograms, and RabbitMQ's latency is that of the newest confirms.
func TestTimes(t *testing.T) {
	n := &node{}
	h := metrics.New(n.sources()).Node()
	n.confirms.Observe(8<<20, 3) // bounds of buckets: a power of two of nanoseconds
	n.syncs.Observe(time.Hour, 1)
	wantLines(t, scrape(t, h, ""), `quorate_confirm_seconds_bucket{le="0.008388608"} 0`, `quorate_confirm_seconds_bucket{le="0.016777216"} 3`,
		`quorate_confirm_seconds_count 3`, `quorate_log_sync_seconds_bucket{le="+Inf"} 1`, `rabbitmq_raft_commit_latency_seconds 0.009437184`)
	n.confirms.Observe(0, 1)
	wantLines(t, scrape(t, h, ""), `rabbitmq_raft_commit_latency_seconds 1.024e-06`)
	wantLines(t, scrape(t, h, ""), `quorate_confirm_seconds_count 4`, `rabbitmq_raft_commit_latency_seconds 1.024e-06`)
}

// Every name that RabbitMQ's dashboards ask for is shown, or the page says what takes its place.
func TestRabbitMQDashboards(t *testing.T) {
	names, err := os.ReadFile("testdata/rabbitmq_dashboards.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, reasons, _ := strings.Cut(string(page), "## RabbitMQ's dashboards")
	reasons, _, _ = strings.Cut(reasons, "\n## ")
	all := strings.Join(scrape(t, metrics.New((&node{queues: []metrics.Queue{queue(1, "/", "q", quorumq.Overview{})}}).sources()).Node(), ""), "\n") + "\n"
	found := 0
	for name := range strings.SplitSeq(string(names), "\n") {
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		found++
		shown := regexp.MustCompile(`(?m)^` + name + `[ {]`).MatchString(all)
		if reasoned := strings.Contains(reasons, "`"+name+"`"); shown == reasoned {
			t.Errorf("%s is shown: %t, has a reason why not: %t", name, shown, reasoned)
		}
	}
	if found < 40 {
		t.Errorf("only %d names", found)
	}
}

// ofHistogram is what the lines of a histogram add to its name.
var ofHistogram = regexp.MustCompile(`_(bucket|sum|count)$`)

// The page of metrics has every name, and no other.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:quorate|process)_.*)$").FindAllString(string(page), -1) {
		for _, name := range regexp.MustCompile("`((?:quorate|rabbitmq)_[a-z_]+)`").FindAllStringSubmatch(row, -1) {
			documented = append(documented, name[1])
		}
	}
	n := &node{queues: []metrics.Queue{queue(1, "/", "q", quorumq.Overview{})}}
	m := metrics.New(n.sources())
	var shown []string
	for _, line := range append(scrape(t, m.Node(), ""), scrape(t, m.Queues(), "")...) {
		shown = append(shown, ofHistogram.ReplaceAllString(line[:strings.IndexAny(line, "{ ")], ""))
	}
	slices.Sort(documented)
	slices.Sort(shown)
	if documented, shown = slices.Compact(documented), slices.Compact(shown); !slices.Equal(documented, shown) {
		t.Errorf("docs/metrics.md has\n%v, shown are\n%v", documented, shown)
	}
}

// One answer is bounded, and says what it leaves out.
func TestQueuesLeftOut(t *testing.T) {
	n := &node{}
	for i := range uint64(metrics.MaxQueues + 2) {
		n.queues = append(n.queues, queue(i, "/", "q"+strings.Repeat("x", int(i%7))+string(rune('0'+i/7)), quorumq.Overview{}))
	}
	got := scrape(t, metrics.New(n.sources()).Queues(), "")
	wantLines(t, got, "quorate_metrics_queues_left_out 2")
}

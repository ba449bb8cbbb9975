package k8s

// panel is one picture of the board. In expressions $sum stands for the matchers of /metrics, which count
// each queue once, and $each for those of /metrics/queues; both go by the board's variables.
type panel struct {
	title, unit string
	about       string
	kind        string // timeseries if empty
	queries     []query
}

type query struct{ expr, legend string }

type row struct {
	title  string
	panels []panel
}

const (
	stat    = "stat"
	perSec  = "ops"
	seconds = "s"
	bytes   = "bytes"
	short   = "short"
)

// board is one dashboard: its file in deploy/grafana, which is also the end of its uid, and its title.
type board struct {
	file, title string
	rows        []row
}

// boards are all dashboards; `make rewrite` makes the files of them.
func boards() []board {
	return []board{
		{"overview", "Quorate", []row{
			{"Cluster", []panel{
				{"Nodes that answer", short, "", stat, []query{{`sum(up{$sum})`, ""}}},
				{"Links down", short, "Pairs of nodes that do not reach one another count twice.", stat, []query{{`sum(quorate_links_down{$sum})`, ""}}},
				{"Queues", short, "", stat, []query{{`sum(quorate_queues_led{$sum})`, ""}}},
				{"Ready", short, "Messages that wait for a consumer.", stat, []query{{`sum(quorate_queue_messages_ready{$sum})`, ""}}},
				{"Unsettled", short, "Messages that consumers hold.", stat, []query{{`sum(quorate_queue_messages_unsettled{$sum})`, ""}}},
				{"Consumers", short, "", stat, []query{{`sum(quorate_queue_consumers{$sum})`, ""}}},
				{"Clients", short, "Connections over all protocols.", stat, []query{{`sum(quorate_gate_connections{$sum,gate="clients"})`, ""}}},
				{"Nodes that hold publishers back", short, "Their memory is short.", stat, []query{{`sum(quorate_alarm_memory{$sum})`, ""}}},
			}},
			{"Rates", []panel{
				{"Messages each second", perSec, "What queues stored, delivered and settled.", "", []query{
					{`sum(rate(quorate_queue_enqueued_total{$sum}[$__rate_interval]))`, "stored"},
					{`sum(rate(quorate_queue_delivered_total{$sum}[$__rate_interval]))`, "delivered"},
					{`sum(rate(quorate_queue_gets_total{$sum}[$__rate_interval]))`, "got"},
					{`sum(rate(quorate_queue_settled_total{$sum}[$__rate_interval]))`, "settled"},
					{`sum(rate(quorate_queue_redelivered_total{$sum}[$__rate_interval]))`, "redelivered"},
				}},
				{"Published and confirmed, by node", perSec, "As gateway, whoever leads the queues.", "", []query{
					{`sum by (instance) (rate(quorate_messages_routed_total{$sum}[$__rate_interval]))`, "routed {{instance}}"},
					{`sum by (instance) (rate(quorate_messages_confirmed_total{$sum}[$__rate_interval]))`, "confirmed {{instance}}"},
				}},
				{"Refused", perSec, "", "", []query{
					{`sum(rate(quorate_queue_refused_total{$sum}[$__rate_interval]))`, "no room"},
					{`sum(rate(quorate_messages_rejected_total{$sum}[$__rate_interval]))`, "rejected"},
					{`sum(rate(quorate_messages_invalid_total{$sum}[$__rate_interval]))`, "invalid"},
					{`sum(rate(quorate_messages_unroutable_returned_total{$sum}[$__rate_interval]))`, "unroutable, returned"},
					{`sum(rate(quorate_messages_unroutable_dropped_total{$sum}[$__rate_interval]))`, "unroutable, dropped"},
				}},
				{"Failed at consumers", perSec, "", "", []query{
					{`sum(rate(quorate_queue_returned_total{$sum}[$__rate_interval]))`, "returned"},
					{`sum(rate(quorate_queue_delivery_limit_total{$sum}[$__rate_interval]))`, "delivery limit"},
					{`sum(rate(quorate_queue_consumer_timeouts_total{$sum}[$__rate_interval]))`, "consumer timeout"},
					{`sum(rate(quorate_queue_expired_total{$sum}[$__rate_interval]))`, "expired"},
				}},
			}},
			{"Nodes", []panel{
				{"Queues led, by node", short, "", "", []query{{`sum by (instance) (quorate_queues_led{$sum})`, "{{instance}}"}}},
				{"Share of time without a processor", "percentunit", "Above 4 % failovers take longer.", "", []query{{`max by (instance) (quorate_processor_starvation_ratio{$sum})`, "{{instance}}"}}},
				{"Free on disk", bytes, "With the limit below which a node takes no messages.", "", []query{
					{`min by (instance) (quorate_disk_free_bytes{$sum})`, "{{instance}}"}, {`max(quorate_disk_low_bytes{$sum})`, "low"},
				}},
				{"Memory", bytes, "With the limit above which publishers are held back.", "", []query{
					{`max by (instance) (quorate_memory_used_bytes{$sum})`, "used {{instance}}"},
					{`max(quorate_memory_high_bytes{$sum})`, "high"},
					{`max by (instance) (process_resident_memory_bytes{$sum})`, "resident {{instance}}"},
				}},
			}},
		}},
		{"queues", "Quorate queues", []row{
			{"Messages", []panel{
				{"Longest queues", short, "Ready messages of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, sum by (vhost, queue) (quorate_queue_messages_ready{$each,queue!=""}))`, "{{vhost}} {{queue}}"},
				}},
				{"Oldest ready message", seconds, "Of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, max by (vhost, queue) (quorate_queue_oldest_message_age_seconds{$each,queue!=""}))`, "{{vhost}} {{queue}}"},
				}},
				{"Bytes in queues", bytes, "", "", []query{
					{`sum(quorate_queue_ready_bytes{$sum})`, "ready"}, {`sum(quorate_queue_unsettled_bytes{$sum})`, "unsettled"},
				}},
				{"Consumers that wait, and full queues", short, "", "", []query{
					{`sum(quorate_queue_consumers_idle{$sum})`, "idle consumers"},
					{`sum(quorate_queue_full{$sum})`, "full queues"},
					{`sum(quorate_queue_messages_delayed{$sum})`, "delayed messages"},
				}},
			}},
			{"Queue by queue", []panel{
				{"Stored, by queue", perSec, "Of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, sum by (vhost, queue) (rate(quorate_queue_enqueued_total{$each,queue!=""}[$__rate_interval])))`, "{{vhost}} {{queue}}"},
				}},
				{"Settled, by queue", perSec, "Of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, sum by (vhost, queue) (rate(quorate_queue_settled_total{$each,queue!=""}[$__rate_interval])))`, "{{vhost}} {{queue}}"},
				}},
				{"Unsettled, by queue", short, "Messages that consumers hold, of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, sum by (vhost, queue) (quorate_queue_messages_unsettled{$each,queue!=""}))`, "{{vhost}} {{queue}}"},
				}},
				{"Consumers, by queue", short, "Of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, sum by (vhost, queue) (quorate_queue_consumers{$each,queue!=""}))`, "{{vhost}} {{queue}}"},
				}},
			}},
			{"Waiting", []panel{
				{"Time in queues, about", seconds, "Ready messages divided by the rate at which they are settled.", "", []query{
					{`sum(quorate_queue_messages_ready{$sum}) / sum(rate(quorate_queue_settled_total{$sum}[$__rate_interval]))`, "all queues"},
				}},
				{"Oldest ready message, by leader", seconds, "", "", []query{{`max by (instance) (quorate_queue_oldest_message_age_seconds{$sum})`, "{{instance}}"}}},
				{"Publishers that wait", short, "Quotas hold them back.", "", []query{{`sum by (instance) (quorate_quota_waiting{$sum})`, "{{instance}}"}}},
				{"Deliveries that clients do not read", bytes, "", "", []query{{`sum by (instance) (quorate_deliveries_buffered_bytes{$sum})`, "{{instance}}"}}},
			}},
		}},
		{"dead-letters", "Quorate dead letters", []row{
			{"All queues", []panel{
				{"Dead letters each second", perSec, "", "", []query{
					{`sum by (reason, strategy) (rate(quorate_dead_letters_total{$sum}[$__rate_interval]))`, "{{reason}}, {{strategy}}"},
				}},
				{"Wait at their source", short, "Until every target has them.", "", []query{
					{`sum(quorate_dead_letter_backlog_messages{$sum})`, "messages"}, {`sum by (cause) (quorate_dead_letters_waiting{$sum})`, "cannot go on: {{cause}}"},
				}},
				{"The first of these waits for", seconds, "", "", []query{{`max(quorate_dead_letter_backlog_oldest_age_seconds{$sum})`, "oldest"}}},
				{"Lost copies and given up", perSec, "Sent at most once without a target; dropped when at-least-once ended.", "", []query{
					{`sum by (cause) (rate(quorate_dead_letter_copies_lost_total{$sum}[$__rate_interval]))`, "lost: {{cause}}"},
					{`sum(rate(quorate_dead_letters_abandoned_total{$sum}[$__rate_interval]))`, "given up"},
				}},
			}},
			{"Forwarding", []panel{
				{"Forwarded each second", perSec, "Every target has stored them.", "", []query{
					{`sum by (instance) (rate(quorate_dead_letters_forwarded_total{$sum}[$__rate_interval]))`, "{{instance}}"},
				}},
				{"Failed attempts each second", perSec, "", "", []query{
					{`sum by (cause) (rate(quorate_dead_letter_retries_total{$sum}[$__rate_interval]))`, "{{cause}}"},
				}},
				{"Queues that cannot forward", short, "", "", []query{{`sum by (instance) (quorate_queues_dead_letter_blocked{$sum})`, "{{instance}}"}}},
				{"Bytes at their source", bytes, "", "", []query{{`sum(quorate_dead_letter_backlog_bytes{$sum})`, "bytes"}}},
			}},
			{"By source", []panel{
				{"Longest backlogs", short, "Of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, sum by (vhost, queue) (quorate_dead_letter_backlog_messages{$each,queue!=""}))`, "{{vhost}} {{queue}}"},
				}},
				{"Oldest in a backlog", seconds, "Of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, max by (vhost, queue) (quorate_dead_letter_backlog_oldest_age_seconds{$each,queue!=""}))`, "{{vhost}} {{queue}}"},
				}},
				{"Reached the delivery limit", perSec, "Of ten queues; needs /metrics/queues.", "", []query{
					{`topk(10, sum by (vhost, queue) (rate(quorate_queue_delivery_limit_total{$each,queue!=""}[$__rate_interval])))`, "{{vhost}} {{queue}}"},
				}},
				{"Stored again after a failure", perSec, "Repeats that the target already had.", "", []query{
					{`sum(rate(quorate_dead_letter_repeats_total{$sum}[$__rate_interval]))`, "repeats"},
				}},
			}},
		}},
		{"engine", "Quorate engine", []row{
			{"Times and groups", []panel{
				{"Confirms, p99", seconds, "From a message's arrival to its confirm.", "", []query{
					{`histogram_quantile(0.99, sum by (instance, le) (rate(quorate_confirm_seconds_bucket{$sum}[$__rate_interval])))`, "{{instance}}"},
				}},
				{"Syncs of the log, p99", seconds, "What confirms wait for.", "", []query{
					{`histogram_quantile(0.99, sum by (instance, le) (rate(quorate_log_sync_seconds_bucket{$sum}[$__rate_interval])))`, "{{instance}}"},
				}},
				{"Entries committed each second", perSec, "Members count, not queues.", "", []query{
					{`sum by (instance) (rate(quorate_raft_commits_total{$sum}[$__rate_interval]))`, "{{instance}}"},
				}},
				{"Elections each second, as members see them", perSec, "", "", []query{
					{`sum by (instance) (rate(quorate_raft_terms_total{$sum}[$__rate_interval]))`, "{{instance}}"},
				}},
			}},
			{"Log", []panel{
				{"Not durable yet", bytes, "Appended to the log and not synced: what confirms wait for.", "", []query{{`sum by (instance) (quorate_log_pending_bytes{$sum})`, "{{instance}}"}}},
				{"The log", bytes, "", "", []query{
					{`sum by (instance) (quorate_log_disk_bytes{$sum})`, "files {{instance}}"}, {`sum by (instance) (quorate_log_live_bytes{$sum})`, "needed {{instance}}"},
				}},
				{"Syncs each second", perSec, "Batches of the log made durable.", "", []query{{`sum by (instance) (rate(quorate_log_syncs_total{$sum}[$__rate_interval]))`, "{{instance}}"}}},
				{"Appended each second", "Bps", "", "", []query{{`sum by (instance) (rate(quorate_log_appended_bytes_total{$sum}[$__rate_interval]))`, "{{instance}}"}}},
			}},
			{"Disk", []panel{
				{"Room until messages are refused", bytes, "Free space above the limit.", "", []query{
					{`min by (instance) (quorate_disk_free_bytes{$sum} - quorate_disk_low_bytes{$sum})`, "{{instance}}"},
				}},
				{"Reserve", bytes, "0 once the node has given it up.", "", []query{{`min by (instance) (quorate_disk_reserve_bytes{$sum})`, "{{instance}}"}}},
				{"Groups in the log", short, "", "", []query{
					{`sum by (instance) (quorate_log_groups{$sum})`, "{{instance}}"}, {`sum by (instance) (quorate_log_groups_lost{$sum})`, "lost {{instance}}"},
				}},
				{"Caches", bytes, "Bodies of messages, and recent entries of the log.", "", []query{
					{`sum by (instance) (quorate_body_cache_bytes{$sum})`, "bodies {{instance}}"}, {`sum by (instance) (quorate_log_cache_bytes{$sum})`, "log {{instance}}"},
				}},
			}},
			{"Groups and links", []panel{
				{"Members, by node", short, "", "", []query{{`sum by (instance, state) (quorate_queue_members{$sum})`, "{{instance}} {{state}}"}}},
				{"Links", short, "", "", []query{
					{`sum by (instance) (quorate_links_down{$sum})`, "down {{instance}}"}, {`sum by (instance) (quorate_links_detour{$sum})`, "detour {{instance}}"},
				}},
				{"Queued for other nodes", bytes, "", "", []query{{`sum by (instance) (quorate_link_queue_bytes{$sum})`, "{{instance}}"}}},
				{"Links made again, and failed attempts", perSec, "", "", []query{
					{`sum by (instance) (rate(quorate_link_reconnects_total{$sum}[$__rate_interval]))`, "again {{instance}}"},
					{`sum by (instance) (rate(quorate_link_failures_total{$sum}[$__rate_interval]))`, "failed {{instance}}"},
				}},
			}},
			{"Process", []panel{
				{"Wall clocks", seconds, "How far each is off the time of the cluster.", "", []query{{`max by (instance) (quorate_clock_error_seconds{$sum})`, "{{instance}}"}}},
				{"Processors in use", short, "", "", []query{{`sum by (instance) (rate(process_cpu_seconds_total{$sum}[$__rate_interval]))`, "{{instance}}"}}},
				{"Goroutines", short, "", "", []query{{`sum by (instance) (go_goroutines{$sum})`, "{{instance}}"}}},
				{"File descriptors", "percentunit", "In use, of the limit.", "", []query{{`max by (instance) (process_open_fds{$sum} / process_max_fds{$sum})`, "{{instance}}"}}},
			}},
		}},
	}
}

package metrics

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// descs describe what has labels of its own, or is not a row.
type descs struct {
	waiting, retries, lost, refusals, offset, members, led, rabbitLed, spread, replaced, refused, leftOut, finalised, reads, certificate, audit, quotaReached, quotaHeld,
	logins, keys, keysAge, keyFailures *prometheus.Desc
}

// newDescs describes the metrics that have labels of their own and no rows.
func newDescs() descs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return descs{
		waiting:      desc("quorate_dead_letters_waiting", "Dead letters that cannot be forwarded now, by cause.", "cause"),
		retries:      desc("quorate_dead_letter_retries_total", "Failed attempts to forward dead letters, by cause.", "cause"),
		quotaReached: desc("quorate_quota_reached_total", "Times that a quota refused a request or began to hold a publisher back (VH-4, VH-14 to VH-17).", "scope", "quota"),
		quotaHeld:    desc("quorate_quota_held_seconds_total", "Total time that publishers waited for a quota.", "scope", "quota"),
		audit:        desc("quorate_audit_events_total", "Audited changes by users and operators (AU-1).", "operation", "outcome"),
		refusals:     desc("quorate_message_refusals_total", "Messages that a queue did not take, by cause.", "cause"),
		lost:         desc("quorate_dead_letter_copies_lost_total", "Dead letters, sent at most once, that no target queue stored, by cause.", "cause"),
		offset:       desc("quorate_clock_offset_seconds", "A node's wall clock minus the cluster's time, by node, this node included.", "node"),
		members:      desc("quorate_queue_members", "Members of queues on this node.", "state"),
		led:          desc("quorate_queues_led", "Queues that this node leads."),
		spread:       desc("quorate_leaders_spread_total", "Queues whose leadership this node moved to even out the leaders."),
		replaced:     desc("quorate_nodes_replaced_total", "Nodes whose stores this node has given up for good."),
		refused:      desc("quorate_peers_refused", "Nodes whose connections this node refuses now, by reason.", "reason"),
		rabbitLed:    desc("rabbitmq_queues", "Queues that this node leads."),
		finalised:    desc("quorate_version_finalized", "Version of stored state that is finalised in the cluster."),
		reads:        desc("quorate_version_readable", "Newest version of stored state that this node's build can read."),
		certificate: desc("quorate_tls_certificate_expiry_timestamp_seconds", "Expiry of the certificate in use, in seconds since the Unix epoch, by listener.",
			"listener"),
		logins:      desc("quorate_logins_total", "Answers of backends to logins, including cached ones, by backend and outcome.", "backend", "outcome"),
		keys:        desc("quorate_oauth_keys", "Keys known of the token issuer."),
		keysAge:     desc("quorate_oauth_keys_age_seconds", "Time since the token issuer's keys were fetched; infinite before the first fetch."),
		keyFailures: desc("quorate_oauth_key_fetch_failures_total", "Failed attempts to fetch the token issuer's keys."),
		leftOut:     desc("quorate_metrics_queues_left_out", "Queues that match and exceed the limit of one answer."),
	}
}

// queueRows are the figures of a queue; over several they are added up.
func queueRows() []row[*quorumq.Overview] {
	return append([]row[*quorumq.Overview]{
		{
			"quorate_queue_messages_ready", "rabbitmq_queue_messages_ready", "Messages ready for delivery.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Ready) },
		},
		{
			"quorate_queue_messages_unsettled", "rabbitmq_queue_messages_unacked", "Messages delivered to consumers and not yet settled.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Unsettled) },
		},
		{
			"quorate_queue_messages_delayed", "", "Messages that wait for their delay to end.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Delayed) },
		},
		{
			"quorate_queue_ready_bytes", "rabbitmq_queue_messages_ready_bytes", "Bytes of the ready messages.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.ReadyBytes) },
		},
		{
			"quorate_queue_unsettled_bytes", "rabbitmq_queue_messages_unacked_bytes", "Bytes of the messages delivered and not yet settled.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.UnsettledBytes) },
		},
		{
			"quorate_queue_oldest_message_age_seconds", "", "Age of the oldest ready message.", gauge, nil, true,
			func(o *quorumq.Overview) float64 { return ageSeconds(o, o.OldestReady) },
		},
		{
			"quorate_queue_consumers", "rabbitmq_queue_consumers", "Consumers.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Consumers) },
		},
		{
			"quorate_queue_consumers_idle", "", "Consumers that could take a message now.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.ConsumersIdle) },
		},
		{
			"quorate_queue_full", "", "1 while the queue accepts no messages because it is full (LEN-7).", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return truth(o.Full) },
		},
		{
			"quorate_queue_enqueued_total", "rabbitmq_queue_messages_published_total", "Messages stored.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Enqueued) },
		},
		{
			"quorate_queue_refused_total", "", "Messages refused because the queue was full.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Refused) },
		},
		{
			"quorate_queue_delivered_total", "rabbitmq_queue_messages_delivered_total", "Deliveries to consumers; a redelivery counts again.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Delivered) },
		},
		{
			"quorate_queue_redelivered_total", "rabbitmq_queue_messages_redelivered_total", "Deliveries of messages that had been delivered before.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Redelivered) },
		},
		{
			"quorate_queue_settled_total", "rabbitmq_queue_messages_acked_total", "Messages acknowledged.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Settled) },
		},
		{
			"quorate_queue_returned_total", "", "Messages returned to the queue.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.ReturnedTotal) },
		},
		{
			"quorate_queue_expired_total", "", "Messages expired.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Expired) },
		},
		{
			"quorate_queue_delivery_limit_total", "", "Messages that reached the delivery limit.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.DeliveryLimitHits) },
		},
		{
			"quorate_queue_consumer_timeouts_total", "", "Deliveries whose ack deadline passed (CT-2).", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.ConsumerTimeouts) },
		},
		{
			"quorate_queue_gets_total", "rabbitmq_queue_get_total", "Gets that returned a message.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Gets) },
		},
		{
			"quorate_queue_empty_gets_total", "rabbitmq_queue_get_empty_total", "Gets that found the queue empty.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.EmptyGets) },
		},
		{
			"quorate_queue_repeats_total", "", "Messages that a producer sent again and that the queue had already stored.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Repeats) },
		},
		{
			"quorate_dead_letter_backlog_messages", "", "Dead letters that their source queue keeps until every target queue has stored them.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Backlog) },
		},
		{
			"quorate_dead_letter_backlog_bytes", "", "Bytes of these dead letters.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.BacklogBytes) },
		},
		{
			"quorate_dead_letter_backlog_oldest_age_seconds", "", "Age of the oldest of these dead letters.", gauge, nil, true,
			func(o *quorumq.Overview) float64 { return ageSeconds(o, o.OldestBacklog) },
		},
		{
			"quorate_dead_letters_confirmed_total", "rabbitmq_global_messages_dead_lettered_confirmed_total", "Dead letters that every target queue has stored.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Confirmed) },
		},
		{
			"quorate_dead_letters_abandoned_total", "", "Dead letters dropped because their queue stopped using at-least-once dead-lettering (DL-27).", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Abandoned) },
		},
		{
			"quorate_dead_letter_repeats_total", "", "Dead letters that arrived again and were already stored.", counter, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.Dedup) },
		},
		{
			"quorate_dead_letter_ranges", "", "Ranges of numbers by which target queues remember the dead letters that they have stored.", gauge, nil, false,
			func(o *quorumq.Overview) float64 { return float64(o.SourceRanges) },
		},
	}, deadLetterRows()...)
}

// deadLetterRows count the discarded messages by strategy and reason (DL-52).
func deadLetterRows() (rows []row[*quorumq.Overview]) {
	for s := quorumq.DeadLetterDisabled; s <= quorumq.LastDeadLetterMode; s++ {
		for r := quorumq.ReasonRejected; r <= quorumq.LastReason; r++ {
			rows = append(rows, row[*quorumq.Overview]{
				"quorate_dead_letters_total", rabbitReason(r), "Messages discarded, by dead-letter strategy and reason.", counter,
				prometheus.Labels{"strategy": s.String(), "reason": r.String()},
				false,
				func(o *quorumq.Overview) float64 { return float64(o.Discarded[s][r]) },
			})
		}
	}
	return rows
}

// ofOne describes rows with vhost and name of the queue.
func ofOne(rows []row[*quorumq.Overview]) []*prometheus.Desc {
	all := make([]*prometheus.Desc, len(rows))
	for i := range rows {
		all[i] = prometheus.NewDesc(rows[i].name, rows[i].help, []string{"vhost", "queue"}, rows[i].labels)
	}
	return all
}

// gatewayRows are the figures of this node as its clients see it.
func gatewayRows() []row[*Gateway] {
	return slices.Concat(deliveryRows(), limitedRows(), []row[*Gateway]{
		{
			"quorate_messages_received_total", "rabbitmq_global_messages_received_total", "Messages received from publishers, accepted or not.", counter, nil, false,
			func(g *Gateway) float64 {
				return float64(g.Published + g.UnroutableReturned + g.UnroutableDropped + g.Undecidable + g.Invalid)
			},
		},
		{
			"quorate_messages_routed_total", "rabbitmq_global_messages_routed_total", "Published messages that at least one queue accepted.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.Published) },
		},
		{
			"quorate_messages_confirmed_total", "rabbitmq_global_messages_confirmed_total", "Messages confirmed to their publishers.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.Confirmed) },
		},
		{
			"quorate_messages_rejected_total", "", "Messages that a queue refused, or that the node could not route.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.Rejected) },
		},
		{
			"quorate_messages_invalid_total", "", "Messages refused because they were invalid.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.Invalid) },
		},
		{
			"quorate_messages_unroutable_returned_total", "rabbitmq_global_messages_unroutable_returned_total", "Mandatory messages that matched no queue and were returned.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.UnroutableReturned) },
		},
		{
			"quorate_messages_unroutable_dropped_total", "rabbitmq_global_messages_unroutable_dropped_total", "Messages that matched no queue and were dropped.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.UnroutableDropped) },
		},
		{
			"quorate_messages_undecidable_total", "", "Messages refused because the node's view of the catalog was too old to decide that no queue takes them (EX-16).", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.Undecidable) },
		},
		{
			"quorate_catalog_view_confirmed", "", "1 while the node serves clients, which requires that the catalog's leader has confirmed its view of the catalog since it started.", gauge, nil, false,
			func(g *Gateway) float64 { return truth(g.Serves) },
		},
		{
			"quorate_catalog_view_age_seconds", "", "Maximum age of the node's view of the catalog; infinite before it is confirmed.", gauge, nil, false,
			func(g *Gateway) float64 {
				if g.ViewAge < 0 {
					return math.Inf(1)
				}
				return g.ViewAge.Seconds()
			},
		},
		{
			"quorate_logins_refused_total", "", "Logins refused.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.LoginsRefused) },
		},
		{
			"quorate_logins_unseen_total", "", "Logins refused without checking the credentials, because too many wrong ones had come from the same address.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.LoginsUnseen) },
		},
		{
			"quorate_unknown_arguments_total", "", "Unknown arguments in declarations, bindings and consumers that begin with x- (C-9).", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.UnknownArguments) },
		},
		{
			"quorate_definitions_waiting", "", "Objects of the definitions of definitions.file that this node could not create yet, and tries again.", gauge, nil, false,
			func(g *Gateway) float64 { return float64(g.DefinitionsWaiting) },
		},
		{
			"quorate_amqp_channels_opened_total", "rabbitmq_channels_opened_total", "AMQP channels that were opened.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.ChannelsOpened) },
		},
		{
			"quorate_amqp_channels_closed_total", "rabbitmq_channels_closed_total", "AMQP channels that were closed.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.ChannelsClosed) },
		},
		{
			"quorate_queues_declared_total", "rabbitmq_queues_declared_total", "Declares of queues by clients, of those that exist too.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.QueuesDeclared) },
		},
		{
			"quorate_queues_created_total", "rabbitmq_queues_created_total", "Queues that were created by commands of this node.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.QueuesCreated) },
		},
		{
			"quorate_queues_deleted_total", "rabbitmq_queues_deleted_total", "Queues that were deleted by commands of this node, also because they expired or were not used any more.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.QueuesDeleted) },
		},
		{
			"quorate_alarms_total", "", "Memory alarms, each of which held publishers back (PUB-10).", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.Alarms) },
		},
		{
			"quorate_quota_waiting", "", "Publishers that a quota holds back now (VH-14).", gauge, nil, false,
			func(g *Gateway) float64 { return float64(g.QuotaWaiting) },
		},
		{
			"quorate_deliveries_buffered_bytes", "", "Bytes of deliveries that wait for clients to read them.", gauge, nil, false,
			func(g *Gateway) float64 { return float64(g.Buffered) },
		},
		{
			"quorate_consumers_stopped_total", "", "Times that the node paused a consumer because its client did not read the deliveries already sent.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.Stopped) },
		},
		{
			"quorate_alarm_memory", "rabbitmq_alarms_memory_used_watermark", "1 while the node holds publishers back because memory is short.", gauge, nil, false,
			func(g *Gateway) float64 { return truth(g.Alarm) },
		},
		{
			"quorate_dead_letters_forwarded_total", "", "Dead letters that this node forwarded to all their target queues.", counter, nil, false,
			func(g *Gateway) float64 { return float64(g.DeadLetterConfirmed) },
		},
		{
			"quorate_queues_dead_letter_blocked", "", "Queues that have dead letters waiting; quorate_dead_letters_waiting has the causes.", gauge, nil, false,
			func(g *Gateway) float64 { return float64(g.Blocked) },
		},
	})
}

// listenerRows are the figures of the ports for clients.
func listenerRows() []row[*Listener] {
	return []row[*Listener]{
		{
			"quorate_amqp_connections", "rabbitmq_connections", "AMQP connections.", gauge, nil, false,
			func(l *Listener) float64 { return float64(l.Connections) },
		},
		{
			"quorate_amqp_channels", "rabbitmq_channels", "AMQP channels.", gauge, nil, false,
			func(l *Listener) float64 { return float64(l.Channels) },
		},
		{
			"quorate_amqp_consumers", "rabbitmq_consumers", "AMQP consumers.", gauge, nil, false,
			func(l *Listener) float64 { return float64(l.Consumers) },
		},
		{
			"quorate_amqp_connections_opened_total", "rabbitmq_connections_opened_total", "AMQP connections that logged in.", counter, nil, false,
			func(l *Listener) float64 { return float64(l.Opened) },
		},
		{
			"quorate_amqp_connections_closed_total", "rabbitmq_connections_closed_total", "AMQP connections that had logged in and have ended.", counter, nil, false,
			func(l *Listener) float64 { return float64(l.Closed) },
		},
		{
			"quorate_amqp_channels_failed_total", "", "AMQP channels closed because of an error of the client, or a limit.", counter, nil, false,
			func(l *Listener) float64 { return float64(l.ChannelsFailed) },
		},
		{
			"quorate_amqp_connections_refused_total", "", "AMQP connections closed before they logged in.", counter, nil, false,
			func(l *Listener) float64 { return float64(l.Refused) },
		},
		{
			"quorate_amqp_connections_failed_total", "", "AMQP connections closed because of an error of the client.", counter, nil, false,
			func(l *Listener) float64 { return float64(l.Failed) },
		},
		{
			"quorate_amqp_connections_stalled_total", "", "AMQP connections closed because the client stopped reading.", counter, nil, false,
			func(l *Listener) float64 { return float64(l.Stalled) },
		},
		{
			"quorate_amqp_connections_blocked_total", "", "Times that an AMQP connection was blocked from publishing.", counter, nil, false,
			func(l *Listener) float64 { return float64(l.Blocked) },
		},
	}
}

// memoryRows are the figures of memory and of the caches that give way.
func memoryRows() []row[*Memory] {
	return []row[*Memory]{
		{
			"quorate_memory_used_bytes", "", "Memory in use, caches included and garbage excluded; the node compares it with quorate_memory_high_bytes.", gauge, nil, false,
			func(m *Memory) float64 { return float64(m.Used) },
		},
		{
			"quorate_memory_limit_bytes", "rabbitmq_resident_memory_limit_bytes", "GOMEMLIMIT, or the limit derived from the container's; 0: none.", gauge, nil, false,
			func(m *Memory) float64 { return float64(m.Limit) },
		},
		{
			"quorate_memory_high_bytes", "", "limits.memory_high in force: the node holds publishers back above it; 0: never.", gauge, nil, false,
			func(m *Memory) float64 { return float64(m.High) },
		},
		{
			"quorate_body_cache_bytes", "", "Bytes of message bodies cached in memory.", gauge, nil, false,
			func(m *Memory) float64 { return float64(m.Bodies) },
		},
		{
			"quorate_body_cache_limit_bytes", "", "Current limit of that cache; lower while memory is short.", gauge, nil, false,
			func(m *Memory) float64 { return float64(m.BodiesLimit) },
		},
		{
			"quorate_log_cache_bytes", "", "Bytes of recent log entries cached in memory.", gauge, nil, false,
			func(m *Memory) float64 { return float64(m.Tail) },
		},
		{
			"quorate_log_cache_limit_bytes", "", "Current limit of that cache; lower while memory is short.", gauge, nil, false,
			func(m *Memory) float64 { return float64(m.TailLimit) },
		},
	}
}

// linkRows are the figures of the connections to other nodes; their public names say link.
func linkRows() []row[*Links] {
	return []row[*Links]{
		{
			"quorate_links_up", "", "Nodes to which this node has a link.", gauge, nil, false,
			func(l *Links) float64 { return float64(l.Up) },
		},
		{
			"quorate_links_down", "", "Other nodes of the cluster to which this node has no link.", gauge, nil, false,
			func(l *Links) float64 { return float64(l.Down) },
		},
		{
			"quorate_links_detour", "", "Nodes that this node reaches only through another node.", gauge, nil, false,
			func(l *Links) float64 { return float64(l.Around) },
		},
		{
			"quorate_links_unsteady", "", "Nodes whose links come and go, as this node sees them.", gauge, nil, false,
			func(l *Links) float64 { return float64(l.Unsteady) },
		},
		{
			"quorate_detours", "", "Connections that this node relays for two other nodes.", gauge, nil, false,
			func(l *Links) float64 { return float64(l.Detours) },
		},
		{
			"quorate_link_queue_bytes", "", "Bytes queued for other nodes.", gauge, nil, false,
			func(l *Links) float64 { return float64(l.QueueBytes) },
		},
		{
			"quorate_link_reconnects_total", "", "Times that a link was established again.", counter, nil, false,
			func(l *Links) float64 { return float64(l.Reconnects) },
		},
		{
			"quorate_link_failures_total", "", "Failed attempts to connect to another node.", counter, nil, false,
			func(l *Links) float64 { return float64(l.Failures) },
		},
		{
			"quorate_link_resets_total", "", "Connections to other nodes given up because they stood still although heartbeats passed.", counter, nil, false,
			func(l *Links) float64 { return float64(l.Stuck) },
		},
		{
			"quorate_link_callers_refused_total", "", "Incoming connections refused because the certificate was missing or not accepted.", counter, nil, false,
			func(l *Links) float64 { return float64(l.Refused) },
		},
		{
			"quorate_processor_starvation_ratio", "", "Share of the last 4 s in which the node lacked a processor.", gauge, nil, false,
			func(l *Links) float64 { return l.Starved },
		},
	}
}

// logRows are the figures of the node's log.
func logRows() []row[*wal.Stats] {
	return []row[*wal.Stats]{
		{
			"quorate_log_segments", "", "Segment files that hold records.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(s.Segments) },
		},
		{
			"quorate_log_disk_bytes", "", "Bytes of all files of the log.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(s.DiskBytes) },
		},
		{
			"quorate_log_live_bytes", "", "Bytes of records that are still needed.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(s.LiveBytes) },
		},
		{
			"quorate_log_pending_bytes", "", "Bytes appended and not yet durable.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(s.PendingBytes) },
		},
		{
			"quorate_log_groups", "", "Groups that have records in the log.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(s.Groups) },
		},
		{
			"quorate_log_groups_lost", "", "Groups whose records are damaged or missing, so that this node must not take part in them.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(s.Lost) },
		},
		{
			"quorate_log_syncs_total", "", "Batches made durable.", counter, nil, false,
			func(s *wal.Stats) float64 { return float64(s.Syncs) },
		},
		{
			"quorate_log_appended_bytes_total", "", "Bytes appended.", counter, nil, false,
			func(s *wal.Stats) float64 { return float64(s.Appended) },
		},
		{
			"quorate_log_waits_for_descriptor", "", "1 while the log, and so every write, waits for a file descriptor.", gauge, nil, false,
			func(s *wal.Stats) float64 { return truth(s.Short) },
		},
		{
			"quorate_log_descriptor_waits_total", "", "Times that the log had to wait for a file descriptor.", counter, nil, false,
			func(s *wal.Stats) float64 { return float64(s.Shortages) },
		},
		{
			"quorate_disk_free_bytes", "rabbitmq_disk_space_available_bytes", "Free bytes on the file system of the data directory.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(s.FreeBytes) },
		},
		{
			"quorate_disk_low_bytes", "rabbitmq_disk_space_available_limit_bytes", "Free bytes below which the node accepts no messages.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(max(0, s.LowBytes)) },
		},
		{
			"quorate_disk_floor_bytes", "", "Free bytes below which the node gives up its reserve and then stops its members of queues.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(max(0, s.FloorBytes)) },
		},
		{
			"quorate_disk_reserve_bytes", "", "Bytes reserved for work that frees space; 0 once the reserve is given up.", gauge, nil, false,
			func(s *wal.Stats) float64 { return float64(s.ReserveBytes) },
		},
	}
}

// gateRows are labelled with the gate.
func gateRows() []row[*gate.Stats] {
	return []row[*gate.Stats]{
		{
			"quorate_gate_connections", "", "Open connections.", gauge, nil, false,
			func(s *gate.Stats) float64 { return float64(s.Connections) },
		},
		{
			"quorate_gate_connections_limit", "", "Maximum number of open connections.", gauge, nil, false,
			func(s *gate.Stats) float64 { return float64(s.Limit) },
		},
		{
			"quorate_gate_unauthenticated", "", "Open connections that have not logged in.", gauge, nil, false,
			func(s *gate.Stats) float64 { return float64(s.Unauthenticated) },
		},
		{
			"quorate_gate_admitted_total", "", "Connections that logged in.", counter, nil, false,
			func(s *gate.Stats) float64 { return float64(s.Admitted) },
		},
		{
			"quorate_gate_crowded_out_total", "", "Connections closed before they logged in, to make room for others.", counter, nil, false,
			func(s *gate.Stats) float64 { return float64(s.CrowdedOut) },
		},
		{
			"quorate_gate_refused_total", "", "Connections closed at once because there was no room.", counter, nil, false,
			func(s *gate.Stats) float64 { return float64(s.Refused) },
		},
		{
			"quorate_gate_descriptors_short_total", "", "Connections closed at once because file descriptors were short.", counter, nil, false,
			func(s *gate.Stats) float64 { return float64(s.Scarce) },
		},
		{
			"quorate_gate_late_total", "", "Connections closed because they did not log in in time.", counter, nil, false,
			func(s *gate.Stats) float64 { return float64(s.Late) },
		},
	}
}

// truth is how Prometheus shows a fact.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

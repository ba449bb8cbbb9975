package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// telegraf is an agent that collects figures. Its plugin for RabbitMQ asks for those of the overview, nodes, exchanges and
// queues.
func telegraf() Library {
	return Library{
		Name: "telegraf", Module: "github.com/influxdata/telegraf", Version: "v1.37.2", Package: "./quorate",
		Prepare: func(dir string) error { return telegraf().addProgram(dir) },
	}
}

// telegrafFields returns the fields that the plugin has to find in some object of each kind, above 0.
func telegrafFields() map[string][]string {
	return map[string][]string{
		"rabbitmq_overview": {
			"amqp_listeners", "channels", "connections", "consumers", "exchanges", "messages", "messages_acked", "messages_delivered",
			"messages_delivered_get", "messages_published", "messages_ready", "messages_unacked", "queues", "return_unroutable",
			"return_unroutable_rate",
		},
		"rabbitmq_node": {
			"disk_free", "disk_free_limit", "fd_total", "fd_used", "mem_allocated_unused", "mem_code", "mem_other_proc", "mem_other_system",
			"mem_total", "mem_used", "proc_total", "proc_used", "running", "uptime",
		},
		"rabbitmq_exchange": {"messages_publish_in", "messages_publish_in_rate", "messages_publish_out", "messages_publish_out_rate"},
		"rabbitmq_queue": {
			"consumers", "consumer_utilisation", "message_bytes", "message_bytes_persist", "message_bytes_ready", "message_bytes_unacked",
			"messages", "messages_ack", "messages_ack_rate", "messages_deliver", "messages_deliver_get", "messages_deliver_get_rate",
			"messages_deliver_rate", "messages_publish", "messages_publish_rate", "messages_ready", "messages_redeliver",
			"messages_redeliver_rate", "messages_unack",
		},
	}
}

// telegrafLacks returns the fields that are empty in every object of a kind, and why.
func telegrafLacks() map[string]map[string]string {
	const erlang, mnesia, parts, mirrors = "only Erlang has it", "there is no Mnesia", "memory is not counted by such parts", "there are no mirrored queues"
	node := map[string]string{}
	for why, fields := range map[string][]string{
		erlang: {
			"gc_bytes_reclaimed", "gc_bytes_reclaimed_rate", "gc_num", "gc_num_rate", "io_read_avg_time", "io_read_avg_time_rate",
			"io_read_bytes", "io_read_bytes_rate", "io_write_avg_time", "io_write_avg_time_rate", "io_write_bytes", "io_write_bytes_rate",
			"sockets_total", "sockets_used",
		},
		mnesia: {"mnesia_disk_tx_count", "mnesia_disk_tx_count_rate", "mnesia_ram_tx_count", "mnesia_ram_tx_count_rate"},
		parts: {
			"mem_atom", "mem_connection_channels", "mem_connection_other", "mem_connection_readers", "mem_connection_writers",
			"mem_metrics", "mem_mgmt_db", "mem_mnesia", "mem_msg_index", "mem_other_ets", "mem_plugins", "mem_queue_procs",
			"mem_queue_slave_procs", "mem_reserved_unallocated",
		},
	} {
		for _, f := range fields {
			node[f] = why
		}
	}
	return map[string]map[string]string{
		"rabbitmq_overview": {"clustering_listeners": "nodes use one port for one another and for clients"},
		"rabbitmq_node":     node,
		"rabbitmq_queue": {
			"idle_since": "it is not known", "memory": "memory is not counted by queue", "message_bytes_ram": "it is not known",
			"slave_nodes": mirrors, "synchronised_slave_nodes": mirrors,
		},
	}
}

// telegrafEither returns the fields of nodes that may be 0: alarms, what waits just now, and a limit that is not set.
func telegrafEither() []string {
	return []string{"disk_free_alarm", "mem_alarm", "mem_binary", "mem_limit", "run_queue"}
}

// federation is what the plugin says of federation: what there is no plugin for is not found.
const federation = `getting "/api/federation-links" failed: 404 Not Found`

// gathered is what the plugin found.
type gathered struct {
	Metrics []telegrafMetric `json:"metrics"`
	Errors  []string         `json:"errors"`
}

// telegrafMetric has the figures of an object of a kind.
type telegrafMetric struct {
	Name   string         `json:"name"`
	Fields map[string]any `json:"fields"`
}

// Telegraf has Telegraf's plugin gather the figures of a node of its own, through which messages flow. It returns ErrAbsent if
// the module or what it imports cannot be fetched.
func Telegraf(ctx context.Context) (LibraryTests, error) {
	return telegraf().besideHTTP(ctx, func(dir string, q *Quorate) (LibraryTests, error) { return gather(ctx, dir, q) })
}

// gather asks the plugin until it finds all that it has to find.
func gather(ctx context.Context, dir string, q *Quorate) (r LibraryTests, err error) {
	program, err := telegraf().buildProgram(ctx, dir)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*figuresPatience)
	defer cancel()
	flowing := make(chan error, 1)
	go func() { flowing <- useForTelegraf(ctx, q.Cluster.Nodes[0].AMQP) }()
	plugin, err := startAsked(ctx, program, "http://"+q.Cluster.Nodes[0].Management)
	if err != nil {
		return r, err
	}
	for deadline := time.Now().Add(figuresPatience); ; {
		var found gathered
		if err := plugin.ask("again", &found); err != nil {
			return r, fmt.Errorf("telegraf's program: %w", err)
		}
		if r = found.judge(); len(r.Failed) == 0 || time.Now().After(deadline) {
			break
		}
		select {
		case err := <-flowing:
			return r, fmt.Errorf("messages do not flow: %w", err)
		case <-time.After(time.Second):
		}
	}
	if err := plugin.end(); err != nil {
		return r, err
	}
	cancel()
	return r, <-flowing
}

// judge compares what was found with what has to be there. Each field is a test.
func (g *gathered) judge() (r LibraryTests) {
	full := map[string]bool{} // by kind and field: some object has it
	for _, m := range g.Metrics {
		for name, v := range m.Fields {
			n, number := v.(float64)
			full[m.Name+" "+name] = full[m.Name+" "+name] || number && n > 0 || !number && v != ""
		}
	}
	var known []difference
	for kind, fields := range telegrafLacks() {
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			known = append(known, difference{test: kind + " " + field, why: fields[field]})
		}
	}
	for kind, fields := range telegrafFields() {
		for _, field := range fields {
			if _, is := full[kind+" "+field]; !is {
				r.Failed = append(r.Failed, kind+" "+field+" was not gathered")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(full)) {
		either := slices.ContainsFunc(telegrafEither(), func(field string) bool { return name == "rabbitmq_node "+field })
		r.judge(name, !full[name] && !either, "is 0 or empty", known)
	}
	r.judge("rabbitmq_federation", slices.Contains(g.Errors, federation), "", []difference{{test: "rabbitmq_federation", why: "there is no such plugin"}})
	for _, e := range g.Errors {
		if e != federation {
			r.Failed = append(r.Failed, e)
		}
	}
	return r
}

// useForTelegraf has messages be published, delivered, returned and settled until ctx ends, and others wait.
func useForTelegraf(ctx context.Context, address string) error {
	c, err := amqp091.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the node ends soon
	ch, err := c.Channel()
	if err != nil {
		return err
	}
	const flowing, held, exchange = "telegraf.flowing", "telegraf.held", "amq.topic"
	for _, q := range []string{flowing, held} {
		_, err1 := ch.QueueDeclare(q, true, false, false, false, amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": -1})
		err2 := ch.QueueBind(q, q, exchange, false, nil)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
	publish := func(key string) error {
		return ch.PublishWithContext(ctx, exchange, key, true, false, amqp091.Publishing{Body: []byte("figures"), DeliveryMode: amqp091.Persistent})
	}
	if err := errors.Join(publish(held), publish(held)); err != nil {
		return err
	}
	for taken := false; !taken; {
		if _, taken, err = ch.Get(held, false); err != nil {
			return err
		}
	}
	deliveries, err := ch.Consume(flowing, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err = errors.Join(publish(flowing), publish("telegraf.nowhere"))
		case d, open := <-deliveries:
			if !open {
				return errors.New("the channel was closed")
			}
			if d.Redelivered {
				err = d.Ack(false)
			} else {
				err = d.Nack(false, true)
			}
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

package rest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/rest"
)

// What the second generation of rabbitmqadmin, a program in Rust, demands of each kind of thing: a field that is missing or
// of another type fails the verb. The types are those of its client library, up to the releases of 2026; older ones want
// most.
const (
	pageFields       = "filtered_count:u64 item_count:u64 page:u64 page_count:u64 page_size:u64 total_count:u64"
	nodeFields       = "name:text uptime:u32 run_queue:u32 processors:u32 os_pid:digits fd_total:u32 proc_total:u32 mem_limit:u64 mem_alarm:flag disk_free_limit:u64 disk_free_alarm:flag rates_mode:text enabled_plugins:texts being_drained:flag rabbitmq_version:text"
	queueFields      = "name:text vhost:text type:text durable:flag auto_delete:flag exclusive:flag arguments:object node:text~ state:text~ leader:text? members:texts? online:texts? memory:u64~ consumers:u16~ consumer_utilisation:real~ exclusive_consumer_tag:text? policy:text? operator_policy:text? effective_policy_definition:object~ message_bytes:u64~ message_bytes_persistent:u64~ message_bytes_ram:u64~ message_bytes_ready:u64~ message_bytes_unacknowledged:u64~ messages:u64~ messages_persistent:u64~ messages_ram:u64~ messages_unacknowledged:u64~"
	exchangeFields   = "name:text vhost:text type:text durable:flag auto_delete:flag arguments:object"
	bindingFields    = "vhost:text source:text destination:text destination_type:queue|exchange routing_key:text arguments:object properties_key:text?"
	connectionFields = "name:text node:text state:text? protocol:text user:text connected_at:u64 host:text? port:u32? peer_host:text? peer_port:u32? channel_max:u16? channels:u16~ client_properties:object"
	channelFields    = "number:u32 name:text connection_details.name:text connection_details.peer_host:text connection_details.peer_port:u32 vhost:text state:text consumer_count:u32 confirm:flag prefetch_count:u32 messages_unacknowledged:u32 messages_unconfirmed:u32"
	consumerFields   = "consumer_tag:text active:flag ack_required:flag prefetch_count:u32 exclusive:flag arguments:object consumer_timeout:u64 queue.name:text queue.vhost:text channel_details.number:u16 channel_details.name:text channel_details.connection_name:text channel_details.node:text channel_details.peer_host:text channel_details.peer_port:u32 channel_details.user:text"
	vhostFields      = "name:text tags:texts? description:text? default_queue_type:text? metadata.tags:texts? metadata.description:text? metadata.default_queue_type:text?"
	userFields       = "name:text tags:texts password_hash:text"
	policyFields     = "name:text vhost:text pattern:text apply-to:queues|classic_queues|quorum_queues|streams|exchanges|all priority:i16 definition:object"
	permissionFields = "user:text vhost:text configure:text read:text write:text"
	topicFields      = "user:text vhost:text exchange:text read:text write:text"
	parameterFields  = "name:text vhost:text component:text value:object"
)

// ofTopology is what rabbitmqadmin demands of queues, exchanges, bindings, policies and parameters.
func ofTopology() []demand {
	return []demand{
		{path: "/api/queues", fields: queueFields},
		{path: "/api/queues/%2F", fields: queueFields},
		{path: "/api/queues/detailed", fields: queueFields},
		{path: "/api/queues/%2F/orders", fields: queueFields},
		{path: "/api/queues/%2F/orders/bindings", fields: bindingFields},
		{path: "/api/exchanges", fields: exchangeFields},
		{path: "/api/exchanges/%2F", fields: exchangeFields},
		{path: "/api/exchanges/%2F/shop", fields: exchangeFields},
		{path: "/api/exchanges/%2F/shop/bindings/source", fields: bindingFields},
		{path: "/api/exchanges/%2F/amq.fanout/bindings/destination", fields: bindingFields},
		{path: "/api/bindings", fields: bindingFields},
		{path: "/api/policies", fields: policyFields},
		{path: "/api/policies/%2F", fields: policyFields},
		{path: "/api/policies/%2F/bound", fields: policyFields},
		{path: "/api/operator-policies", fields: policyFields},
		{path: "/api/operator-policies/%2F/most", fields: policyFields},
		{path: "/api/parameters", fields: parameterFields},
		{path: "/api/parameters/shovel/%2F/s", fields: parameterFields},
		{path: "/api/global-parameters", fields: "name:text"},
		{path: "/api/global-parameters/cluster_tags", fields: "name:text value:object"},
		{path: "/api/definitions", fields: "rabbitmq_version:text? users[].name:text users[].tags:texts users[].password_hash:text vhosts[].name:text " +
			"permissions[].configure:text parameters[].component:text parameters[].value:object policies[].definition:object queues[].arguments:object " +
			"exchanges[].type:text bindings[].destination_type:queue|exchange"},
		{path: "/api/definitions/%2F", fields: "parameters[].component:text policies[].definition:object queues[].arguments:object exchanges[].type:text " +
			"bindings[].destination_type:queue|exchange"},
	}
}

// ofAccess is what rabbitmqadmin demands of users, vhosts and what is allowed, and of clients.
func ofAccess() []demand {
	return []demand{
		{path: "/api/whoami", fields: "name:text tags:texts"},
		{path: "/api/connections", fields: connectionFields},
		{path: "/api/vhosts/%2F/connections", fields: connectionFields},
		{path: "/api/connections/username/guest", fields: "name:text node:text user:text vhost:text"},
		{path: "/api/channels", fields: channelFields},
		{path: "/api/vhosts/%2F/channels", fields: channelFields},
		{path: "/api/consumers", fields: consumerFields},
		{path: "/api/consumers/%2F", fields: consumerFields},
		{path: "/api/vhosts", fields: vhostFields},
		{path: "/api/vhosts/%2F", fields: vhostFields},
		{path: "/api/users", fields: userFields},
		{path: "/api/users/ann", fields: userFields},
		{path: "/api/users/without-permissions", fields: userFields},
		{path: "/api/permissions", fields: permissionFields},
		{path: "/api/permissions/%2F/guest", fields: permissionFields},
		{path: "/api/vhosts/%2F/permissions", fields: permissionFields},
		{path: "/api/users/guest/permissions", fields: permissionFields},
		{path: "/api/topic-permissions", fields: topicFields},
		{path: "/api/topic-permissions/%2F/guest", fields: topicFields},
		{path: "/api/vhost-limits", fields: "vhost:text value:object"},
		{path: "/api/vhost-limits/%2F", fields: "vhost:text value:object"},
		{path: "/api/user-limits", fields: "user:text value:object"},
		{path: "/api/user-limits/ann", fields: "user:text value:object"},
		{path: "/api/auth/attempts/node-0", fields: "protocol:amqp|amqp091|amqp10|http|https auth_attempts:u64 auth_attempts_failed:u64 auth_attempts_succeeded:u64"},
	}
}

// ofNodes is what rabbitmqadmin demands of the cluster and its nodes.
func ofNodes() []demand {
	return []demand{
		{path: "/api/overview", fields: "cluster_name:text node:text rabbitmq_version:text product_name:text product_version:text " +
			"object_totals.connections:u64 object_totals.channels:u64 object_totals.queues:u64 object_totals.exchanges:u64 object_totals.consumers:u64 " +
			"queue_totals.messages:u64 queue_totals.messages_ready:u64 queue_totals.messages_unacknowledged:u64 " +
			"listeners[].node:text listeners[].protocol:text listeners[].port:u32 listeners[].ip_address:text " +
			rated("queue_totals.", "messages messages_ready messages_unacknowledged") +
			rated("message_stats.", "publish confirm return_unroutable drop_unroutable deliver_get deliver_no_ack redeliver ack") +
			rated("churn_rates.", "connection_created connection_closed channel_created channel_closed queue_declared queue_created queue_deleted")},
		{path: "/api/cluster-name", fields: "name:text"},
		{path: "/api/nodes", fields: nodeFields},
		{path: "/api/nodes/node-2", fields: nodeFields},
		{path: "/api/nodes/node-0/memory", fields: memoryFields()},
		{path: "/api/nodes/node-1/memory", fields: memoryFields()},
		{path: "/api/feature-flags", fields: "name:text state:enabled|disabled|state_changing|unavailable desc:text doc_url:text stability:required|stable|experimental provided_by:text"},
		{path: "/api/health/checks/port-listener/1", code: 503, fields: "status:failed reason:text missing:u16"},
		{path: "/api/health/checks/protocol-listener/mqtt", code: 503, fields: "status:failed reason:text protocols:texts missing:texts"},
	}
}

// inPages are the lists that rabbitmqadmin asks for by pages.
func inPages() (out []demand) {
	for path, fields := range map[string]string{
		"queues": queueFields, "queues/%2F": queueFields, "exchanges": exchangeFields, "connections": connectionFields, "channels": channelFields,
		"users": userFields, "vhosts": vhostFields,
	} {
		d := demand{path: "/api/" + path + "?page=1&page_size=100", fields: pageFields}
		for field := range strings.FieldsSeq(fields) {
			d.fields += " items[]." + field
		}
		out = append(out, d)
	}
	return out
}

// rated are fields that have a rate.
func rated(in, fields string) string {
	var out strings.Builder
	for field := range strings.FieldsSeq(fields) {
		out.WriteString(" " + in + field + "_details.rate:real")
	}
	return out.String() + " "
}

// memoryFields are the kinds of a node's memory.
func memoryFields() string {
	out := "memory.strategy:text memory.total.rss:u64 memory.total.allocated:u64 memory.total.erlang:u64"
	for kind := range strings.FieldsSeq(`connection_readers connection_writers connection_channels connection_other queue_procs quorum_queue_procs
		stream_queue_procs stream_queue_replica_reader_procs stream_queue_coordinator_procs plugins metadata_store other_proc metrics mgmt_db mnesia
		quorum_ets metadata_store_ets other_ets binary msg_index code atom other_system allocated_unused reserved_unallocated`) {
		out += " memory." + kind + ":u64"
	}
	return out
}

// monitors returns what the agents of telegraf and Datadog read, which show what is missing as 0.
func monitors() []demand {
	const counts = "publish deliver_get redeliver ack"
	counted := func(in, fields string) (out string) {
		for field := range strings.FieldsSeq(fields) {
			out += " " + in + field + ":u64"
		}
		return out + rated(in, fields)
	}
	return []demand{
		{path: "/api/overview", fields: counted("message_stats.", counts+" deliver confirm return_unroutable") + counted("queue_totals.", "messages messages_ready messages_unacknowledged")},
		{path: "/api/nodes", fields: "disk_free:u64 disk_free_limit:u64 fd_total:u64 fd_used:u64 mem_limit:u64 mem_used:u64 proc_total:u64 proc_used:u64 run_queue:u64 uptime:u64 running:flag mem_alarm:flag disk_free_alarm:flag"},
		{path: "/api/queues?name=orders", fields: "node:text consumers:u64 consumer_utilisation:real message_bytes:u64 message_bytes_ready:u64 message_bytes_unacknowledged:u64 message_bytes_persistent:u64" +
			counted("", "messages messages_ready messages_unacknowledged") + counted("message_stats.", counts+" deliver")},
		{path: "/api/exchanges/%2F/shop", fields: counted("message_stats.", "publish_in publish_out")},
		{path: "/api/aliveness-test/%2F", fields: "status:ok"},
	}
}

// scaler returns what KEDA's scaler reads of one queue, and of those that match a pattern, which it takes for one page.
func scaler() []demand {
	const of = "name:text messages:u64 messages_ready:u64 messages_unacknowledged:u64 message_stats.publish_details.rate:real message_stats.deliver_get_details.rate:real"
	return []demand{
		{path: "/api/queues/%2F/orders", fields: of},
		{path: "/api/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Eord&page_size=100", fields: "page_count:u64 items[]." + strings.ReplaceAll(of, " ", " items[].")},
	}
}

// furnish makes at least one of everything that there is a path for, on several nodes. What clients hold, they hold until the
// test ends.
func (a api) furnish(c *testcluster.Cluster) {
	a.t.Helper()
	a.run([]row{
		{do: "PUT /api/queues/%2F/orders", body: `{"arguments":{"x-message-ttl":3600000}}`, code: 201},
		{do: "PUT /api/queues/%2F/short", body: `{"durable":false,"arguments":{"x-queue-type":"classic"}}`, code: 201},
		{do: "PUT /api/exchanges/%2F/shop", body: `{"type":"topic"}`, code: 201},
		{do: "POST /api/bindings/%2F/e/shop/q/orders", body: `{"routing_key":"a.#"}`, code: 201},
		{do: "POST /api/bindings/%2F/e/shop/e/amq.fanout", body: `{"routing_key":"b","arguments":{"x":1}}`, code: 201},
		{do: "PUT /api/policies/%2F/bound", body: `{"pattern":"^ord","definition":{"max-length":100},"apply-to":"queues"}`, code: 201},
		{do: "PUT /api/operator-policies/%2F/most", body: `{"pattern":".*","definition":{"max-length":1000}}`, code: 201},
		{do: "PUT /api/users/ann", body: `{"tags":"monitoring","password_hash":""}`, code: 201}, // has no password
		{do: "PUT /api/user-limits/ann/max-connections", body: `{"value":7}`, code: 204},
		{do: "PUT /api/vhost-limits/%2F/max-connections", body: `{"value":70}`, code: 204},
		{do: "PUT /api/topic-permissions/%2F/guest", body: `{"exchange":"shop","write":".*","read":".*"}`, code: 201},
		{do: "PUT /api/global-parameters/cluster_tags", body: `{"name":"cluster_tags","value":{"region":"x"}}`, code: 201},
		{do: "POST /api/definitions/%2F", body: `{"parameters":[{"component":"shovel","name":"s","value":{"src-uri":"amqp://"}}]}`, code: 200},
	})
	for i := range 2 {
		conn, err := amqp091.Dial("amqp://guest:guest@" + c.AMQP(i) + "/")
		if err != nil {
			a.t.Fatal(err)
		}
		a.t.Cleanup(func() { _ = conn.Close() }) // its node may be gone by then
		ch, err := conn.Channel()
		if err != nil {
			a.t.Fatal(err)
		}
		arguments := amqp091.Table{"x-priority": int32(3)}
		if i == 1 {
			arguments["x-consumer-timeout"] = int32(7000)
		}
		if _, err := ch.Consume("orders", fmt.Sprint("amqp", i), false, false, false, false, arguments); err != nil {
			a.t.Fatal(err)
		}
	}
	over, err := client.Dial(a.t.Context(), client.Config{Addresses: c.Addrs()})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(over.Close)
	if _, err := over.Consume(a.t.Context(), client.ConsumeConfig{Queue: "orders", Tag: "grpc", Timeout: 9 * time.Second}); err != nil {
		a.t.Fatal(err)
	}
	a.run([]row{{do: "POST /api/exchanges/%2F/shop/publish", body: `{"routing_key":"a.b","payload":"x"}`, code: 200}})
}

// The answers have what programs that nobody here wrote want of them.
func TestToolsFindTheirFields(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := testcluster.Start(t, 3)
	a := on(t, rest.New(whole(c)), c, 0)
	a.furnish(c)
	for name, demands := range map[string][]demand{
		"topology": ofTopology(), "access": ofAccess(), "nodes": ofNodes(), "pages": inPages(), "monitors": monitors(), "KEDA": scaler(),
	} {
		t.Run(name, func(t *testing.T) {
			b := a
			b.t = t
			testcluster.Poll(t, "all fields are there", func() error { // figures are collected every few seconds
				var lacks []string
				for _, d := range demands {
					lacks = append(lacks, d.meets(b)...)
				}
				if len(lacks) > 0 {
					return errors.New(strings.Join(lacks, "\n"))
				}
				return nil
			})
		})
	}
	a.run(verbs())
	overGRPC := ""
	for i := range 3 {
		_, _, text := a.ask("", "GET /api/auth/attempts/"+c.Name(i)+"?all=true", "")
		overGRPC += text
	}
	if !strings.Contains(overGRPC, `"protocol":"grpc"`) {
		t.Errorf("no login over gRPC is counted: %s", overGRPC)
	}
	a.run([]row{
		{do: "GET /api/consumers?name=amqp0&columns=consumer_timeout", code: 200, want: has(`[{"consumer_timeout":1800000}]`)},
		{do: "GET /api/consumers?name=amqp1&columns=consumer_timeout", code: 200, want: has(`[{"consumer_timeout":7000}]`)},
		{do: "GET /api/consumers?name=grpc&columns=consumer_timeout", code: 200, want: has(`[{"consumer_timeout":9000}]`)},
		{do: "PUT /api/policies/%2F/hasty", body: `{"pattern":"^ord","definition":{"consumer-timeout":60000},"priority":1}`, code: 201},
		{do: "GET /api/consumers?name=amqp0&columns=consumer_timeout", code: 200, want: has(`[{"consumer_timeout":60000}]`)},
		{do: "GET /api/auth/attempts/node-0?columns=protocol", code: 200, want: has("!grpc")},
		{do: "GET /api/auth/attempts/node-1?columns=protocol", code: 200, want: has("!grpc")},
		{do: "GET /api/auth/attempts/node-2?columns=protocol", code: 200, want: has("!grpc")},
		{do: "GET /api/nodes/nix/memory", code: 404},
		{who: "manager", do: "GET /api/nodes/node-0/memory", code: 403},
		{do: "GET /api/aliveness-test/nix", code: 404},
		{who: "manager", do: "GET /api/deprecated-features", code: 200, want: has("[]")},
		{who: "manager", do: "GET /api/deprecated-features/used", code: 200, want: has("[]")},
		{who: "manager", do: "GET /api/health/checks/reached-target-cluster-size", code: 200, want: has(`"status":"ok"`)},
	})
}

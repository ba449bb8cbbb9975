package rest

import (
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/connections"
)

// consumerRoutes are about clients' consumers.
func consumerRoutes() []route {
	return []route{
		{method: "GET", path: "/api/consumers", tag: management, serve: listConsumers, query: ofQueueQuery(), says: "consumers on all nodes"},
		{method: "GET", path: "/api/consumers/{vhost}", tag: management, serve: listConsumers, query: ofQueueQuery(), says: "the consumers of a vhost"},
	}
}

// ofConsumer gives a consumer the names and the activity words of RabbitMQ's HTTP API.
func (c *call) ofConsumer(x *connections.ConsumerInfo) object {
	host, port := hostOf(x.Peer)
	arguments := propertiesOf(x.Arguments)
	active, status := true, "up"
	switch x.Activity {
	case broker.Active.String():
		status = "single_active"
	case broker.Waiting.String():
		active, status = false, "waiting"
	}
	out := object{
		"queue": object{"name": x.Queue, "vhost": x.VHost}, "consumer_tag": x.Tag, "ack_required": !x.AutoAck, "exclusive": x.Exclusive,
		"prefetch_count": x.Prefetch, "active": active, "activity_status": status, "arguments": arguments,
		"priority": x.Priority, "since_ms": x.SinceMs,
		"consumer_timeout": c.api.Broker.ConsumerTimeout(x.VHost, x.Queue, arguments),
		"channel_details": object{
			"name": channelName(x.ConnectionName, x.Channel), "number": x.Channel, "connection_name": x.ConnectionName, "node": string(x.Node), "user": x.User, "peer_host": host, "peer_port": port,
		},
	}
	if c.figures() {
		out["messages_unacknowledged"], out["messages_buffered"] = x.Unsettled, x.Buffered
	}
	return out
}

// ofQueueQuery are the parameters of lists of consumers.
func ofQueueQuery() []parameter {
	return listQuery(withoutFigures(), textParam("queue", "shows the consumers of the queue of this name alone"))
}

// listConsumers lists consumers, also of one vhost or, with the parameter queue, of one queue. The
// broker decides what the user may see (VH-12).
func listConsumers(c *call) (reply, error) {
	all, silent, err := c.api.Broker.Connections.Consumers(c.Context(), c.vhost(), c.text("queue"))
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, func(x *connections.ConsumerInfo) string { return x.Tag }, c.ofConsumer), silent)
}

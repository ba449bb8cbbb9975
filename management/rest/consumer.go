package rest

import (
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/connections"
)

// ofConsumer gives a consumer the names and the activity words of RabbitMQ's HTTP API.
func ofConsumer(c *connections.ConsumerInfo) object {
	host, port := hostOf(c.Peer)
	active, status := true, "up"
	switch c.Activity {
	case broker.Active.String():
		status = "single_active"
	case broker.Waiting.String():
		active, status = false, "waiting"
	}
	return object{
		"queue": object{"name": c.Queue, "vhost": c.VHost}, "consumer_tag": c.Tag, "ack_required": !c.AutoAck, "exclusive": c.Exclusive,
		"prefetch_count": c.Prefetch, "active": active, "activity_status": status, "arguments": propertiesOf(c.Arguments),
		"priority": c.Priority, "messages_unacknowledged": c.Unsettled, "messages_buffered": c.Buffered, "since_ms": c.SinceMs,
		"channel_details": object{
			"name": channelName(c.ConnectionName, c.Channel), "number": c.Channel, "connection_name": c.ConnectionName, "node": string(c.Node), "user": c.User, "peer_host": host, "peer_port": port,
		},
	}
}

// ofQueueQuery are the parameters of lists of consumers.
func ofQueueQuery() []parameter {
	return listQuery(textParam("queue", "shows the consumers of the queue of this name alone"))
}

// listConsumers lists consumers, also of one vhost or, with the parameter queue, of one queue. The
// broker decides what the user may see (VH-12).
func listConsumers(c *call) (reply, error) {
	all, silent, err := c.api.Broker.Connections.Consumers(c.Context(), c.vhost(), c.text("queue"))
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, func(x *connections.ConsumerInfo) string { return x.Tag }, ofConsumer), silent)
}

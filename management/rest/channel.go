package rest

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
)

// channelRoutes are about the channels of clients' connections. Protocols without channels have none.
func channelRoutes() []route {
	return []route{
		{method: "GET", path: "/api/channels", tag: management, always: true, serve: listChannels, query: listQuery(withoutFigures()), says: "the channels of clients' connections to all nodes"},
		{method: "GET", path: "/api/channels/{name}", tag: management, always: true, serve: getChannel, query: oneQuery(withoutFigures()), says: "one channel, with its consumers"},
		{method: "GET", path: "/api/connections/{name}/channels", tag: management, always: true, serve: listConnectionChannels, query: listQuery(withoutFigures()), says: "the channels of a connection"},
		{method: "GET", path: "/api/vhosts/{vhost}/channels", tag: management, serve: listVHostChannels, query: listQuery(withoutFigures()), says: "the channels of clients' connections to a vhost"},
	}
}

// channelName is the name that RabbitMQ gives a channel; "" where there are no channels.
func channelName(connection string, number uint32) string {
	if number == 0 {
		return ""
	}
	return connection + " (" + strconv.FormatUint(uint64(number), 10) + ")"
}

// nameOfChannel is the name of a channel.
func nameOfChannel(x *connections.ChannelInfo) string { return channelName(x.ConnectionName, x.Number) }

// ofChannel gives a channel the names that RabbitMQ's HTTP API has. What is counted with each message is not kept for a
// channel.
func ofChannel(x *connections.ChannelInfo) object {
	host, port := hostOf(x.Peer)
	return object{
		"name": nameOfChannel(x), "number": x.Number, "node": string(x.Node), "vhost": x.VHost, "user": x.User, "user_who_performed_action": x.User,
		"state": x.State, "confirm": x.Confirms, "transactional": x.Transacts, "prefetch_count": x.Prefetch, "global_prefetch_count": 0,
		"connection_details": object{"name": x.ConnectionName, "peer_host": host, "peer_port": port},
	}
}

// channelRow returns what shows a channel as the caller wants it.
func (c *call) channelRow() func(x *connections.ChannelInfo) object {
	if !c.figures() {
		return ofChannel
	}
	return func(x *connections.ChannelInfo) object {
		out := ofChannel(x)
		out["consumer_count"], out["messages_unacknowledged"], out["messages_unconfirmed"] = x.Consumers, x.Unsettled, x.Unconfirmed
		return out
	}
}

func listChannels(c *call) (reply, error) { return c.channels("", "") }

// listVHostChannels answers 404 for a vhost that the caller may not see.
func listVHostChannels(c *call) (reply, error) {
	if _, err := c.visibleVHost(); err != nil {
		return reply{}, err
	}
	return c.channels(c.vhost(), "")
}

func listConnectionChannels(c *call) (reply, error) {
	x, err := c.api.Broker.Connections.ClientConnection(c.Context(), c.connectionName())
	if err != nil {
		return reply{}, err
	}
	return c.channels("", x.ID)
}

// channels answers with the channels of a vhost and of a connection; "": of all.
func (c *call) channels(vhost, connection string) (reply, error) {
	all, silent, err := c.api.Broker.Connections.Channels(c.Context(), vhost, connection)
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, nameOfChannel, c.channelRow()), silent)
}

// getChannel finds the connection first, which may have any name that connections are found by.
func getChannel(c *call) (reply, error) {
	name := c.connectionName()
	cut := strings.LastIndex(name, " (") // names of clients may have brackets too
	if cut < 0 {
		return reply{}, missing("channel", "", name)
	}
	number, err := strconv.ParseUint(strings.TrimSuffix(name[cut+2:], ")"), 10, 32)
	if err != nil {
		return reply{}, missing("channel", "", name)
	}
	owner, err := c.api.Broker.Connections.ClientConnection(c.Context(), name[:cut])
	if err != nil {
		return reply{}, err
	}
	all, silent, err := c.api.Broker.Connections.Channels(c.Context(), "", owner.ID)
	if err != nil {
		return reply{}, err
	}
	i := slices.IndexFunc(all, func(x connections.ChannelInfo) bool { return uint64(x.Number) == number })
	if i < 0 && slices.Contains(silent, string(owner.Node)) {
		return reply{}, &failure.Error{Class: failure.Unavailable, Kind: "channel", Name: name, Reason: "node " + string(owner.Node) + ", which has it, does not answer for channels"}
	}
	if i < 0 {
		return reply{}, missing("channel", "", name)
	}
	out := c.channelRow()(&all[i])
	if !c.figures() {
		return reply{body: out, silent: silent}, nil
	}
	details, more, err := c.consumersOn(&all[i])
	out["consumer_details"] = details
	return reply{body: out, silent: together(silent, more)}, err
}

// consumersOn returns the consumers of a channel that the caller may see, and the nodes that did not answer.
func (c *call) consumersOn(x *connections.ChannelInfo) (out []object, silent []string, err error) {
	out = []object{}
	if x.Consumers == 0 {
		return out, nil, nil
	}
	all, silent, err := c.api.Broker.Connections.Consumers(c.Context(), x.VHost, "")
	if e, is := errors.AsType[*failure.Error](err); is && (e.Class == failure.AccessRefused || e.Class == failure.NotAllowed) {
		return out, nil, nil // the channel may be seen without them
	}
	for i := range all {
		if y := &all[i]; y.Connection == x.Connection && y.Channel == x.Number {
			out = append(out, c.ofConsumer(y))
		}
	}
	return out, silent, err
}

package rest

import (
	"cmp"
	"net/netip"
	"net/url"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/message"
)

// connectionRoutes are about clients' connections.
func connectionRoutes() []route {
	return []route{
		{method: "GET", path: "/api/connections", tag: management, always: true, serve: listConnections, query: listQuery(withoutFigures()), says: "clients' connections to all nodes"},
		{method: "GET", path: "/api/connections/{$}", tag: management, always: true, serve: listConnections, query: listQuery(withoutFigures()), says: "clients' connections to all nodes"},
		{method: "GET", path: "/api/connections/{name}", tag: management, always: true, serve: getConnection, query: oneQuery(withoutFigures()), says: "one connection"},
		{method: "DELETE", path: "/api/connections/{name}", tag: administrator, act: closesConnection, serve: closeConnection, says: "closes a connection; the client gets the text of the header X-Reason"},
		{method: "GET", path: userConnections, tag: management, always: true, serve: listUserConnections, query: listQuery(withoutFigures()), says: "the connections of a user"},
		{method: "DELETE", path: userConnections, tag: administrator, act: closesUserConnections, serve: closeUserConnections, says: "closes the connections of a user; the clients get the text of the header X-Reason"},
		{method: "GET", path: "/api/vhosts/{vhost}/connections", tag: management, serve: listVHostConnections, query: listQuery(withoutFigures()), says: "clients' connections to a vhost"},
	}
}

// ofConnection gives a connection the names that RabbitMQ's HTTP API has.
func ofConnection(c *connections.ConnectionInfo) object {
	host, port := hostOf(c.Local)
	peerHost, peerPort := hostOf(c.Peer)
	out := object{
		"name": c.Name, "type": "network", "user": c.User, "user_who_performed_action": c.User, "vhost": c.VHost, "node": string(c.Node),
		"host": host, "port": port, "peer_host": peerHost, "peer_port": peerPort,
		"ssl": c.TLS, "protocol": c.Protocol, "auth_mechanism": c.Mechanism, "state": c.State,
		"channels": c.Channels, "channel_max": c.ChannelMax, "frame_max": c.FrameMax, "timeout": c.HeartbeatSeconds,
		"connected_at": c.SinceMs, "client_properties": propertiesOf(c.Properties),
	}
	if c.ClientName != "" {
		out["user_provided_name"] = c.ClientName
	}
	return out
}

// withOctets adds what a connection has carried, and how fast it does.
func (o object) withOctets(c *connections.ConnectionInfo, receive, send float64) object {
	o["recv_oct"], o["recv_oct_details"] = c.Received, object{"rate": receive}
	o["send_oct"], o["send_oct_details"] = c.Sent, object{"rate": send}
	return o
}

// hostOf splits an address. The host is empty for a text that is not an address.
func hostOf(address string) (host string, port uint16) {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", 0
	}
	return a.Addr().Unmap().String(), a.Port()
}

// propertiesOf reads the properties that a client sent to a node; it leaves out what cannot be read.
func propertiesOf(b []byte) message.Table {
	t, _, err := message.DecodeTable(b)
	if len(b) == 0 || err != nil {
		return message.Table{}
	}
	return t
}

func listConnections(c *call) (reply, error) { return c.connections("", "") }

// listVHostConnections answers 404 for a vhost that the caller may not see.
func listVHostConnections(c *call) (reply, error) {
	if _, err := c.visibleVHost(); err != nil {
		return reply{}, err
	}
	return c.connections(c.vhost(), "")
}

func listUserConnections(c *call) (reply, error) { return c.connections("", c.name()) }

// connections answers with the connections to a vhost and of a user; "": of all.
func (c *call) connections(vhost, user string) (reply, error) {
	all, silent, err := c.api.Broker.Connections.ClientConnections(c.Context(), vhost, user)
	if err != nil {
		return reply{}, err
	}
	return c.list(of(all, func(x *connections.ConnectionInfo) string { return x.Name }, c.connectionRow()), silent)
}

// connectionRow returns what shows a connection as the caller wants it. That rates cannot be had hides no connection.
func (c *call) connectionRow() func(x *connections.ConnectionInfo) object {
	if !c.figures() {
		return ofConnection
	}
	newest, err := c.api.Stats.Connections(c.Context())
	if err != nil {
		newest = nil
	}
	return func(x *connections.ConnectionInfo) object {
		receive, send := newest.RatesOf(x.ID)
		return ofConnection(x).withOctets(x, receive, send)
	}
}

// connectionName is the name of the path, which some clients escape twice.
func (c *call) connectionName() string {
	if again, err := url.PathUnescape(c.name()); err == nil {
		return again
	}
	return c.name()
}

func getConnection(c *call) (reply, error) {
	x, err := c.api.Broker.Connections.ClientConnection(c.Context(), c.connectionName())
	if err != nil {
		return reply{}, err
	}
	return reply{body: c.connectionRow()(&x)}, nil
}

func closesConnection(c *call) audit.Act {
	return audit.Act{Operation: audit.OpConnectionClose, Kind: "connection", Name: c.connectionName()}
}

// closingReason is what a client gets to know whose connection is closed. Programs compare the text with RabbitMQ's.
func (c *call) closingReason() string {
	return cmp.Or(c.Header.Get("X-Reason"), "Closed via management plugin")
}

func closeConnection(c *call) (reply, error) {
	return reply{}, c.api.Broker.Connections.EndConnection(c.Context(), c.connectionName(), c.closingReason())
}

func closesUserConnections(c *call) audit.Act {
	return audit.Act{Operation: audit.OpConnectionClose, Kind: "user", Name: c.name()}
}

func closeUserConnections(c *call) (reply, error) {
	silent, err := c.api.Broker.Connections.EndUserConnections(c.Context(), c.name(), c.closingReason())
	return reply{silent: silent}, err
}

package management

import (
	"net/netip"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/message"
)

// connection is a client's connection as JSON.
type connection struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	User     string `json:"user"`
	UserDone string `json:"user_who_performed_action"`
	VHost    string `json:"vhost"`
	Node     string `json:"node"`
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
	peer
	SSL              bool          `json:"ssl"`
	Protocol         string        `json:"protocol"`
	AuthMechanism    string        `json:"auth_mechanism"`
	State            string        `json:"state"`
	Channels         int           `json:"channels"`
	ChannelMax       uint32        `json:"channel_max"`
	FrameMax         uint32        `json:"frame_max"`
	Timeout          uint32        `json:"timeout"`
	ConnectedAt      int64         `json:"connected_at"`
	Received         uint64        `json:"recv_oct"`
	Sent             uint64        `json:"send_oct"`
	ClientProperties message.Table `json:"client_properties"`
	UserProvidedName string        `json:"user_provided_name,omitempty"`
}

// peer is a client's address.
type peer struct {
	PeerHost string `json:"peer_host"`
	PeerPort uint16 `json:"peer_port"`
}

func toPeer(address string) peer {
	host, port := hostOf(address)
	return peer{PeerHost: host, PeerPort: port}
}

// hostOf splits an address. The host is empty for a text that is not an address.
func hostOf(address string) (host string, port uint16) {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", 0
	}
	return a.Addr().Unmap().String(), a.Port()
}

// toConnection gives a connection the names that RabbitMQ's HTTP API has.
func toConnection(c *connections.ConnectionInfo) connection {
	host, port := hostOf(c.Local)
	return connection{
		Name: c.Name, Type: "network", User: c.User, UserDone: c.User, VHost: c.VHost, Node: string(c.Node), Host: host, Port: port, peer: toPeer(c.Peer),
		SSL: c.TLS, Protocol: c.Protocol, AuthMechanism: c.Mechanism, State: c.State,
		Channels: c.Channels, ChannelMax: c.ChannelMax, FrameMax: c.FrameMax, Timeout: c.HeartbeatSeconds,
		ConnectedAt: c.SinceMs, Received: c.Received, Sent: c.Sent, ClientProperties: toTable(c.Properties), UserProvidedName: c.ClientName,
	}
}

// toTable reads the properties that a client sent to a node; it leaves out what cannot be read.
func toTable(b []byte) message.Table {
	if len(b) == 0 {
		return nil
	}
	t, _, err := message.DecodeTable(b)
	if err != nil {
		return nil
	}
	return t
}

package page

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// connectionViews are the pages about what clients have open.
func connectionViews() []view {
	return []view{
		{path: "/ui/connections", file: "connections.html", title: "Connections", load: loadConnections},
		{path: "/ui/connection", file: "connection.html", title: "Connection", load: loadConnection},
		{path: "/ui/consumers", file: "consumers.html", title: "Consumers", load: loadConsumers},
	}
}

// connectionActions end connections.
func connectionActions() []action {
	return []action{{path: "/ui/connection/close", asks: asksClose, does: closeConnection}}
}

// connectionRow is a client's connection.
type connectionRow struct {
	Name       string         `json:"name"`
	ClientName string         `json:"user_provided_name"`
	User       string         `json:"user"`
	VHost      string         `json:"vhost"`
	Node       string         `json:"node"`
	Host       string         `json:"host"`
	Port       int            `json:"port"`
	PeerHost   string         `json:"peer_host"`
	PeerPort   int            `json:"peer_port"`
	TLS        bool           `json:"ssl"`
	Protocol   string         `json:"protocol"`
	Mechanism  string         `json:"auth_mechanism"`
	State      string         `json:"state"`
	Channels   *int           `json:"channels"`
	ChannelMax int            `json:"channel_max"` // 0, as the next two, where the protocol has none
	FrameMax   uint64         `json:"frame_max"`
	Heartbeat  int            `json:"timeout"`
	Since      float64        `json:"connected_at"`
	Received   *uint64        `json:"recv_oct"`
	Sent       *uint64        `json:"send_oct"`
	Properties map[string]any `json:"client_properties"`
}

// Badge is the colour of the connection's state.
func (c *connectionRow) Badge() string {
	if c.State == "running" {
		return "done"
	}
	return "running" // held back, or closing
}

// connectionsPage is the list of connections.
type connectionsPage struct {
	Page   listPage[*connectionRow]
	VHosts []string
}

func loadConnections(v *visit) (any, error) {
	var p connectionsPage
	var err error
	if p.VHosts, err = v.vhosts(); err != nil {
		return nil, err
	}
	q := v.URL.Query()
	switch {
	case q.Get("user") != "":
		err = v.list(&p.Page, v.listQuery(), "/api/connections/username/%s", q.Get("user"))
	case q.Get("vhost") != "":
		err = v.list(&p.Page, v.listQuery(), "/api/vhosts/%s/connections", q.Get("vhost"))
	default:
		err = v.list(&p.Page, v.listQuery(), "/api/connections")
	}
	return &p, err
}

// consumerRow is a consumer.
type consumerRow struct {
	Queue struct {
		Name  string `json:"name"`
		VHost string `json:"vhost"`
	} `json:"queue"`
	Tag       string         `json:"consumer_tag"`
	Acks      bool           `json:"ack_required"`
	Exclusive bool           `json:"exclusive"`
	Prefetch  int            `json:"prefetch_count"` // 0: no limit
	Activity  string         `json:"activity_status"`
	Priority  int            `json:"priority"`
	Unacked   *uint64        `json:"messages_unacknowledged"`
	Buffered  *uint64        `json:"messages_buffered"`
	SinceMs   int64          `json:"since_ms"`
	Arguments map[string]any `json:"arguments"`
	Channel   struct {
		Connection string `json:"connection_name"`
		Node       string `json:"node"`
		User       string `json:"user"`
		PeerHost   string `json:"peer_host"`
		PeerPort   int    `json:"peer_port"`
	} `json:"channel_details"`
}

// Does is the consumer's activity in words.
func (c *consumerRow) Does() string {
	switch c.Activity {
	case "single_active":
		return "active, the only one"
	case "waiting":
		return "waits to become active"
	}
	return "active"
}

// consumersPage is the list of consumers.
type consumersPage struct {
	Page   listPage[*consumerRow]
	VHosts []string
}

func loadConsumers(v *visit) (any, error) {
	var p consumersPage
	var err error
	if p.VHosts, err = v.vhosts(); err != nil {
		return nil, err
	}
	if vhost := v.URL.Query().Get("vhost"); vhost != "" {
		return &p, v.list(&p.Page, v.listQuery(), "/api/consumers/%s", vhost)
	}
	return &p, v.list(&p.Page, v.listQuery(), "/api/consumers")
}

// connectionPage is what the page about a connection shows.
type connectionPage struct {
	Connection connectionRow
	Channels   []*channelRow
	Consumers  []*consumerRow
	More       int // consumers that are not shown
}

// getConnection asks for the connection of this visit.
func (v *visit) getConnection() (c connectionRow, err error) {
	return c, v.get(&c, "/api/connections/%s", v.FormValue("name"))
}

// maxConsumers bounds the consumers on the page of a connection.
const maxConsumers = 200

// loadConnection shows no channels if the connection has just ended. It takes the connection's consumers from the list of all in its vhost, which is one question to each node.
func loadConnection(v *visit) (any, error) {
	c, err := v.getConnection()
	if err != nil {
		return nil, err
	}
	p := &connectionPage{Connection: c}
	if err := v.get(&p.Channels, "/api/connections/%s/channels", c.Name); err != nil && !missing(err) {
		return nil, err
	}
	for _, vhost := range strings.Split(c.VHost, ",") { // a connection over gRPC may use several
		if vhost == "" {
			continue
		}
		var all []*consumerRow
		if err := v.get(&all, "/api/consumers/%s", vhost); missing(err) || refused(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		p.addConsumers(all)
	}
	return p, nil
}

// addConsumers adds those consumers that are the connection's.
func (p *connectionPage) addConsumers(all []*consumerRow) {
	for _, x := range all {
		switch {
		case x.Channel.Connection != p.Connection.Name:
		case len(p.Consumers) < maxConsumers:
			p.Consumers = append(p.Consumers, x)
		default:
			p.More++
		}
	}
}

// asksClose asks for the client's end of the connection, which is shorter than its name.
func asksClose(v *visit) (question, error) {
	c, err := v.getConnection()
	q := question{
		Title: "Close connection " + c.Name + "?", Name: c.Peer(), Button: "Close the connection", Back: address("/ui/connection", "name", c.Name),
		Lines: []string{"It is of user " + c.User + " and has " + channelsLine(c.Channels) + ".", "Its consumers are cancelled; what they have not acked is delivered again.", "Its exclusive queues are deleted.", "The client may connect again at once."},
	}
	if reason := v.FormValue("reason"); reason != "" {
		q.Lines = append(q.Lines, "The client gets the reason: "+reason)
	}
	return q, err
}

// Peer is the address and the port of the client; the connection's name if the address is not known.
func (c *connectionRow) Peer() string {
	if c.PeerHost == "" {
		return c.Name
	}
	return net.JoinHostPort(c.PeerHost, strconv.Itoa(c.PeerPort))
}

// closeConnection hands the reason to the client. Control characters have no place in a header.
func closeConnection(v *visit) (outcome, error) {
	name := v.FormValue("name")
	header := http.Header{}
	reason := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, v.FormValue("reason"))
	if reason != "" {
		header.Set("X-Reason", reason)
	}
	_, err := v.exchange(http.MethodDelete, apiPath("/api/connections/%s", name), header, nil)
	return outcome{"/ui/connections", "Connection " + name + " is being closed."}, err
}

// channelsLine counts open channels; nil: their number is not known.
func channelsLine(n *int) string {
	if n == nil {
		return "channels"
	}
	return plural(*n, "open channel")
}

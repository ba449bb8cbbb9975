package serve

import (
	"net"
	"strconv"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/management/rest"
)

// facts are what the health checks of the HTTP API use besides the broker.
func (n *node) facts() rest.Facts {
	return rest.Facts{
		Listeners: n.listeners, Certificates: n.certificateEnds, Settings: func() map[string]any { return *n.settings.Load() },
		Expected:    func() int { return n.cfg.Cluster.Expect },
		Connections: func() (open, most int) { return n.gates.clients.Stats().Connections, n.cfg.Limits.Connections },
	}
}

// keepSettings makes the settings in force readable for others while a reload changes them.
func (n *node) keepSettings() {
	all := map[string]any{}
	for _, k := range config.Keys() {
		all[k.Name] = n.cfg.Shown(k)
	}
	n.settings.Store(&all)
}

// listeners returns the listeners for clients and operators. All of them are open by the time that
// somebody can ask: a node that cannot open one does not start.
func (n *node) listeners() (all []rest.Listener) {
	secure := n.clientTLS != nil
	for _, l := range []struct {
		protocol, address string
		secure            bool
	}{
		{"grpc", n.cfg.Listen.Client, secure},
		{"amqp", n.cfg.AMQP(), false},
		{"amqp", n.cfg.AMQPS(), true},
		{"http", n.cfg.Listen.Management, secure},
		{"http", n.cfg.Listen.HTTP, n.cfg.HTTP.TLS},
	} {
		host, text, err := net.SplitHostPort(l.address)
		if err != nil { // empty: there is none
			continue
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil { // the configuration was checked
			continue
		}
		if l.secure {
			l.protocol += "/ssl"
		}
		all = append(all, rest.Listener{Protocol: l.protocol, Address: host, Port: uint16(port)})
	}
	return all
}

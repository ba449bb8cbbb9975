package rest

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/operators"
)

// healthRoutes are checks for probes and for people: 200 where all is well, 503 with a reason where
// it is not. They have RabbitMQ's paths. What needs all queues has its own file.
func healthRoutes() []route {
	const checks = "/api/health/checks/"
	check := func(path string, serve func(*call) (reply, error), says string) route {
		return route{method: "GET", path: checks + path, tag: management, always: true, serve: serve, says: says}
	}
	open := func(path, failed string, serve func(*call) (reply, error), says string) route {
		r := check(path, briefly(failed, serve), says)
		r.open = true
		return r
	}
	return append(queueHealthRoutes(checks),
		check("alarms", checkAlarms, "no node lacks disk space or memory, hangs in a write or shows a wrong time, and this node holds no publishers back"),
		check("local-alarms", checkLocalAlarms, "the same of this node alone"),
		check("certificate-expiration/{within}/{unit}", checkCertificates, "no certificate of this node ends within so many days, weeks, months or years"),
		check("port-listener/{port}", checkPort, "the node listens on a port"),
		check("protocol-listener/{protocols}", checkProtocols, "the node listens for all of the protocols, with commas between"),
		route{method: "GET", path: "/api/aliveness-test/{vhost}", tag: management, always: true, serve: checkVHost, says: "the vhost is there, and the node serves clients"},
		check("virtual-hosts", checkServing, "the vhosts work, which they do while the node serves"),
		check("node-is-mirror-sync-critical", checkNothing, "always well: there are no mirrors"),
		open("ready-to-serve-clients", "the node is not ready for clients", checkReady, "the node is ready for clients: it is started, not drained and not cut off"),
		open("is-in-service", "the node does not serve clients", checkServing, "the node serves clients"),
		open("below-node-connection-limit", "the limit of connections is reached", checkConnections, "the node takes one more connection"),
		open("reached-target-cluster-size", "the cluster has fewer nodes than it was to be founded with", checkSize, "the cluster has as many nodes as it was to be founded with, or more"),
		check("metadata-store/initialized", checkCatalog, "the node has a view of the catalog"),
		check("metadata-store/initialized/with-data", checkServing, "the node's view of the catalog has what a cluster begins with"),
	)
}

// well is the answer of a check that finds nothing wrong.
func well() (reply, error) { return reply{body: object{"status": "ok"}}, nil }

// unwell is the answer of a check that finds something wrong, with what RabbitMQ's answer has.
func unwell(reason string, more object) (reply, error) {
	body := object{"status": "failed", "reason": reason}
	for name, v := range more {
		body[name] = v
	}
	return reply{code: http.StatusServiceUnavailable, body: body}, nil
}

// judge is well, or unwell with the error.
func judge(err error) (reply, error) {
	if err != nil {
		return unwell(err.Error(), nil)
	}
	return well()
}

// briefly is a check that callers who have not logged in may make too: they get to know that it failed, and not why.
func briefly(failed string, check func(*call) (reply, error)) func(*call) (reply, error) {
	return func(c *call) (reply, error) {
		out, err := check(c)
		if c.outside && (err != nil || out.code != 0) {
			return unwell(failed, nil)
		}
		if c.outside {
			return well()
		}
		return out, err
	}
}

func checkNothing(*call) (reply, error) { return well() }

func checkReady(c *call) (reply, error) { return judge(c.api.Broker.Ready()) }

func checkServing(c *call) (reply, error) { return judge(c.api.Broker.Serving.Serves()) }

// checkVHost answers 404 for a vhost that the caller may not see.
func checkVHost(c *call) (reply, error) {
	if err := c.api.Broker.Serving.Serves(); err != nil {
		return unwell(err.Error(), nil)
	}
	if _, err := c.visibleVHost(); err != nil {
		return reply{}, err
	}
	return well()
}

func checkAlarms(c *call) (reply, error) { return c.checkAlarmsOf("") }

func checkLocalAlarms(c *call) (reply, error) { return c.checkAlarmsOf(c.api.Node) }

// checkAlarmsOf looks at one node, or at all for "". Each node knows alone whether its memory is short, so all are asked.
func (c *call) checkAlarmsOf(node string) (reply, error) {
	s, err := c.api.Broker.Operators.ClusterStatus(c.Context(), true)
	if err != nil {
		return reply{}, err
	}
	alarms, silent := []object{}, silentIn(&s)
	for i := range s.Nodes {
		if n := &s.Nodes[i]; node == "" || n.ID == node {
			alarms = append(alarms, alarmsOf(n)...)
		}
	}
	if a := c.api.Broker.Alarms.Now(); a != nil {
		alarms = append(alarms, object{"node": c.api.Node, "resource": "publishers", "reason": a.Reason})
	}
	where := "in the cluster"
	if node != "" {
		where, silent = "on this node", nil
	}
	out, err := well()
	if len(alarms) > 0 {
		out, err = unwell("there are alarms in effect "+where, object{"alarms": alarms})
	}
	out.silent = silent
	return out, err
}

// alarmsOf are what ails a node.
func alarmsOf(n *operators.NodeStatus) (found []object) {
	for _, a := range n.Alarms() {
		found = append(found, object{"node": n.ID, "resource": a.Resource, "reason": a.Reason})
	}
	return found
}

// unknownHere is the answer of a check whose facts this node does not have.
func unknownHere(what string) (reply, error) { return unwell("this node does not know "+what, nil) }

// maxWithinYears bounds how far checks look ahead, so that the time does not overflow.
const maxWithinYears = 200

// checkCertificates fails for certificates that have ended, too.
func checkCertificates(c *call) (reply, error) {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	unit, known := map[string]time.Duration{"days": day, "weeks": 7 * day, "months": year / 12, "years": year}[strings.ToLower(c.PathValue("unit"))]
	if !known {
		return reply{}, bad("unit", c.PathValue("unit"), "want days, weeks, months or years")
	}
	n, err := strconv.Atoi(c.PathValue("within"))
	if most := int(maxWithinYears * year / unit); err != nil || n < 0 || n > most {
		return reply{}, bad("within", c.PathValue("within"), "want 0 to "+strconv.Itoa(most))
	}
	if c.api.Facts.Certificates == nil {
		return unknownHere("its certificates")
	}
	end := time.Now().Add(time.Duration(n) * unit)
	ends, expired := c.api.Facts.Certificates(), []object{}
	for _, listener := range slices.Sorted(maps.Keys(ends)) {
		if ends[listener].Before(end) {
			expired = append(expired, object{"node": c.api.Node, "listener": listener, "certfile_expires_on": ends[listener].UTC().Format(time.RFC3339)})
		}
	}
	if len(expired) > 0 {
		return unwell("certificates expire within "+c.PathValue("within")+" "+strings.ToLower(c.PathValue("unit")), object{"expired": expired})
	}
	return well()
}

// checkPort names the ports that are open, as RabbitMQ does: the asked one may be a misprint.
func checkPort(c *call) (reply, error) {
	port, err := strconv.ParseUint(c.PathValue("port"), 10, 16)
	if err != nil || port == 0 {
		return reply{}, bad("port", c.PathValue("port"), "want 1 to 65535")
	}
	if c.api.Facts.Listeners == nil {
		return unknownHere("its listeners")
	}
	ports := []uint16{}
	for _, l := range c.api.Facts.Listeners() {
		if uint64(l.Port) == port {
			return reply{body: object{"status": "ok", "port": port}}, nil
		}
		ports = append(ports, l.Port)
	}
	return unwell("the node does not listen on this port", object{"missing": port, "ports": ports})
}

// protocolNamed gives a protocol the name that listeners have.
func protocolNamed(name string) string {
	name = strings.ToLower(name)
	switch name {
	case "amqps":
		return "amqp/ssl"
	case "https":
		return "http/ssl"
	case "grpcs":
		return "grpc/ssl"
	}
	for _, version := range []string{"091", "0.9.1", "0-9-1", "0_9_1"} {
		if name == "amqp"+version {
			return "amqp"
		}
	}
	return name
}

// checkProtocols knows amqp, grpc and http, each also with TLS.
func checkProtocols(c *call) (reply, error) {
	if c.api.Facts.Listeners == nil {
		return unknownHere("its listeners")
	}
	active, there := map[string]bool{}, []string{}
	for _, l := range c.api.Facts.Listeners() {
		if !active[l.Protocol] {
			there = append(there, l.Protocol)
		}
		active[l.Protocol] = true
	}
	var lacks []string
	for name := range strings.SplitSeq(c.PathValue("protocols"), ",") {
		if name = protocolNamed(name); !active[name] {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) > 0 {
		return unwell("the node does not listen for these protocols", object{"missing": lacks, "protocols": there})
	}
	return reply{body: object{"status": "ok", "protocols": there}}, nil
}

// checkConnections counts all clients, also those that have not logged in.
func checkConnections(c *call) (reply, error) {
	if c.api.Facts.Connections == nil {
		return unknownHere("its limit of connections")
	}
	open, most := c.api.Facts.Connections()
	if open >= most {
		return unwell(strconv.Itoa(open)+" connections are open, and the limit is "+strconv.Itoa(most), nil)
	}
	return well()
}

// checkSize counts nodes, whether they answer or not: a node that is away for a while is no smaller cluster.
func checkSize(c *call) (reply, error) {
	if c.api.Facts.Expected == nil {
		return unknownHere("with how many nodes the cluster was to be founded")
	}
	s, err := c.api.Broker.Operators.ClusterStatus(c.Context(), false)
	if err != nil {
		return reply{}, err
	}
	size, target := len(s.Nodes), c.api.Facts.Expected()
	more := object{"cluster_size": size, "target_cluster_size": target}
	if size < target {
		return unwell("the cluster has "+strconv.Itoa(size)+" of "+strconv.Itoa(target)+" nodes (cluster.expect)", more)
	}
	return well()
}

// checkCatalog fails until the catalog's leader has confirmed the node's view once.
func checkCatalog(c *call) (reply, error) {
	s, err := c.api.Broker.Operators.ClusterStatus(c.Context(), false)
	if err != nil {
		return reply{}, err
	}
	if s.ViewAge < 0 {
		return unwell("the node has no confirmed view of the catalog: "+s.Hindrance, nil)
	}
	return well()
}

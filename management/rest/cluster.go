package rest

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/operators"
)

// clusterRoutes are about the cluster as a whole and about taking its nodes out of service.
func clusterRoutes() []route {
	return []route{
		{method: "GET", path: "/api/auth", open: true, always: true, serve: waysToLogIn, says: "how callers log in"},
		{method: "GET", path: "/api/version", tag: management, open: true, always: true, serve: version, says: "the node's version"},
		{method: "GET", path: "/api/cluster-name", tag: management, always: true, serve: getClusterName, query: oneQuery(), says: "the cluster's name"},
		{method: "PUT", path: "/api/cluster-name", tag: administrator, serve: putClusterName, says: "accepts the name that the cluster has; it cannot be changed"},
		{method: "GET", path: "/api/extensions", tag: management, always: true, serve: listExtensions, says: "extensions of the web page, of which there are none"},
		{method: "GET", path: "/api/feature-flags", tag: management, serve: listFeatureFlags, query: listQuery(), says: "the versions of stored state, and whether they are finalised"},
		{method: "PUT", path: "/api/feature-flags/{name}/enable", tag: administrator, act: finalises, serve: enableFeatureFlag, says: "finalises the newest version of stored state, which cannot be undone"},
		{method: "GET", path: "/api/deprecated-features", tag: management, always: true, serve: listDeprecated, query: listQuery(), says: "the features that are to be removed, of which there are none"},
		{method: "GET", path: "/api/deprecated-features/used", tag: management, always: true, serve: listDeprecated, query: listQuery(), says: "those of them that are used"},
		{method: "GET", path: "/api/config/effective", tag: administrator, always: true, serve: listSettings, says: "the settings that are in force on this node, without secrets"},
		{method: "GET", path: "/v1/cluster", tag: monitoring, always: true, serve: getCluster, says: "the state of the cluster and its nodes, with what each node says of itself"},
		{method: "POST", path: "/v1/nodes/{name}/drain", tag: administrator, act: changesNode(audit.OpNodeDrain), serve: drainNode, query: dryRunQuery(), says: "moves all leadership off a node, as an operation; body: timeout_ms, 0 for as long as it takes"},
		{method: "POST", path: "/v1/nodes/{name}/undrain", tag: administrator, act: changesNode(audit.OpNodeUndrain), serve: undrainNode, says: "lets a node that was drained take new work again"},
	}
}

// waysToLogIn reports that the page asks for name and password: it does not send its user to an issuer of tokens,
// though the API takes them.
func waysToLogIn(*call) (reply, error) { return reply{body: object{"oauth_enabled": false}}, nil }

func version(c *call) (reply, error) { return reply{body: c.api.Version}, nil }

func getClusterName(c *call) (reply, error) { return reply{body: object{"name": c.api.Cluster}}, nil }

// putClusterName accepts the present name, for tools that set what they want to have.
func putClusterName(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	name, err := f.need("name")
	if err == nil && name != c.api.Cluster {
		err = bad("name", name, "the cluster's name is "+strconv.Quote(c.api.Cluster)+" and cannot be changed: nodes know each other by it, from their setting cluster.name")
	}
	return reply{}, err
}

func listExtensions(*call) (reply, error) { return reply{body: []object{}}, nil }

// flagPrefix begins the names of the feature flags that stand for versions of stored state.
const flagPrefix = "stored_state_v"

// The states of a feature flag.
const (
	flagEnabled     = "enabled"
	flagDisabled    = "disabled"
	flagUnavailable = "unavailable" // nodes hold it back
)

// listFeatureFlags asks all nodes which versions they read: one that does not answer holds those back
// that are not finalised.
func listFeatureFlags(c *call) (reply, error) {
	finalised, newest, held, err := c.api.Broker.Operators.Finalise(c.Context(), true)
	if err != nil {
		return reply{}, err
	}
	all := make([]object, newest)
	for i := range all {
		all[i] = flagOf(i+1, finalised, held)
	}
	return c.list(rows{
		count: len(all), name: func(i int) string { return flagPrefix + strconv.Itoa(i+1) }, build: func(i int) object { return all[i] },
	}, c.silentNodes())
}

// flagOf shows a version of stored state as a feature flag.
func flagOf(version, finalised int, held []operators.HeldVersion) object {
	out := object{
		"name": flagPrefix + strconv.Itoa(version), "state": flagEnabled, "stability": "stable", "provided_by": "quorate", "doc_url": "",
		"desc": "version " + strconv.Itoa(version) + " of the state that the nodes store; once it is enabled, builds that cannot read it are refused",
	}
	if version <= finalised {
		return out
	}
	out["state"] = flagDisabled
	for _, h := range held {
		if int(h.Reads) < version {
			out["state"] = flagUnavailable
		}
	}
	return out
}

func finalises(*call) audit.Act {
	return audit.Act{Operation: audit.OpVersionFinalise, Kind: "cluster"}
}

// enableFeatureFlag finalises the newest version only: a version between cannot be finalised alone,
// and what is finalised stays so.
func enableFeatureFlag(c *call) (reply, error) {
	o := c.api.Broker.Operators
	finalised, newest, _, err := o.Finalise(c.Context(), true)
	if err != nil {
		return reply{}, err
	}
	text, is := strings.CutPrefix(c.name(), flagPrefix)
	version, err := strconv.Atoi(text)
	switch {
	case !is || err != nil || version < 1 || version > newest:
		return reply{}, missing("feature flag", "", c.name())
	case version <= finalised:
		return reply{}, nil
	case version < newest:
		return reply{}, bad("name", c.name(), "cannot be enabled alone; enable "+flagPrefix+strconv.Itoa(newest)+", which includes it")
	}
	_, _, _, err = o.Finalise(c.Context(), false)
	return reply{}, err
}

// listDeprecated lists nothing: no release has deprecated a feature.
func listDeprecated(c *call) (reply, error) { return c.list(rows{}, nil) }

// listSettings shows the settings of this node alone: nodes may differ.
func listSettings(c *call) (reply, error) {
	if c.api.Facts.Settings == nil {
		return reply{}, missing("settings", "", c.api.Node)
	}
	return reply{body: c.api.Facts.Settings()}, nil
}

// maxClusterTime bounds how long nodes are asked for details.
const maxClusterTime = 5 * time.Second

// getCluster also asks each node about itself, so it may take maxClusterTime.
func getCluster(c *call) (reply, error) {
	ctx, cancel := context.WithTimeout(c.Context(), maxClusterTime)
	defer cancel()
	s, err := c.api.Broker.Operators.ClusterStatus(ctx, true)
	if err != nil {
		return reply{}, err
	}
	nodes := make([]object, len(s.Nodes))
	for i := range s.Nodes {
		nodes[i] = ofNodeStatus(&s.Nodes[i])
	}
	out := object{
		"cluster": s.Cluster, "node": s.Node, "catalog_leader": s.CatalogLeader, "catalog_index": s.CatalogIndex,
		"finalized_version": s.Finalised, "hindrance": s.Hindrance, "nodes": nodes,
	}
	if s.ViewAge >= 0 {
		out["view_age_ms"] = s.ViewAge.Milliseconds()
	}
	return reply{body: out, silent: silentIn(&s)}, nil
}

// ofNodeStatus shows a node; what it has not reported is left out.
func ofNodeStatus(n *operators.NodeStatus) object {
	out := object{
		"id": n.ID, "epoch": n.Epoch, "client_address": n.ClientAddress, "version": n.Version, "alive": n.Alive, "connected": n.Connected,
		"refused": n.Refused, "replicas": n.Replicas, "leaders": n.Leaders, "answers": n.Answers,
	}
	if n.Answers {
		out["draining"], out["reads_version"], out["counters"] = n.Draining, n.Reads, n.Counters
		out["start"] = object{"phase": string(n.Start.Phase), "done": n.Start.Done, "total": n.Start.Total, "unit": n.Start.Unit}
	}
	if d := n.Disk; d != nil {
		out["disk"] = object{
			"pressure": d.Pressure, "path": d.Path, "free_bytes": d.Free, "low_bytes": d.Low, "floor_bytes": d.Floor,
			"hangs_ms": d.Hangs.Milliseconds(), "stopped": d.Stopped, "refused": d.Refused, "moved": d.Moved,
		}
	}
	if k := n.Clock; k != nil {
		out["clock"] = object{"offset_us": k.Offset.Microseconds(), "error_us": k.Error.Microseconds(), "grade": k.Grade, "off": k.Off}
	}
	return out
}

// changesNode describes a change of the path's node.
func changesNode(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act { return audit.Act{Operation: op, Kind: "node", Name: c.name()} }
}

// drainNode does not wait for the end of the drain, which may take longer than a request.
func drainNode(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	ms, err := f.number("timeout_ms", 0)
	if err != nil {
		return reply{}, err
	}
	if most := int64(24 * time.Hour / time.Millisecond); ms < 0 || ms > most {
		return reply{}, bad("timeout_ms", strconv.FormatInt(ms, 10), "want 0 to "+strconv.FormatInt(most, 10))
	}
	if c.flag("dry_run") {
		return c.planDrain()
	}
	op, err := c.api.Broker.Operators.StartDrain(c.Context(), c.name(), time.Duration(ms)*time.Millisecond)
	if err != nil {
		return reply{}, err
	}
	return reply{code: http.StatusAccepted, body: object{"operation": ofOperation(&op)}}, nil
}

// planDrain lists the queues that the path's node leads.
func (c *call) planDrain() (reply, error) {
	n, silent, err := c.findNode()
	if err != nil {
		return reply{}, err
	}
	queues, err := c.api.Broker.Queues.List(c.Context(), "", true)
	if err != nil {
		return reply{}, err
	}
	var p operators.Plan
	for i := range queues.Len() {
		switch q := queues.Brief(i); {
		case q.Leader != n.ID:
		case len(queues.Queue(i).Members) == 1:
			p.Add("queue %q in vhost %q: node %q is its only member and stays its leader", queues.Name(i), q.VHost, n.ID)
		default:
			p.Add("queue %q in vhost %q: another member leads instead of node %q", queues.Name(i), q.VHost, n.ID)
		}
	}
	r, err := begun(operators.Operation{}, p, nil)
	r.silent = together(silent, queues.Silent)
	return r, err
}

func undrainNode(c *call) (reply, error) {
	return reply{}, c.api.Broker.Operators.Undrain(c.Context(), c.name())
}

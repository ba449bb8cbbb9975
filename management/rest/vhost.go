package rest

import (
	"errors"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/management/stats"
)

// vhostRoutes are about vhosts.
func vhostRoutes() []route {
	return []route{
		{method: "GET", path: "/api/vhosts", tag: management, serve: listVHosts, query: listQuery(withoutFigures()), says: "the vhosts that the caller may see"},
		{method: "GET", path: "/api/vhosts/{vhost}", tag: management, serve: getVHost, query: oneQuery(withoutFigures()), says: "one vhost"},
		{method: "PUT", path: "/api/vhosts/{vhost}", tag: administrator, act: changesVHost(audit.OpVHostPut), serve: putVHost, says: "makes a vhost, or changes the settings that are given"},
		{method: "DELETE", path: "/api/vhosts/{vhost}", tag: administrator, act: changesVHost(audit.OpVHostDelete), serve: deleteVHost, says: "deletes a vhost with all that is in it"},
		{method: "POST", path: "/api/vhosts/{vhost}/deletion/protection", tag: administrator, act: changesVHost(audit.OpVHostPut), serve: protectVHost(true), says: "protects a vhost from deletion"},
		{method: "DELETE", path: "/api/vhosts/{vhost}/deletion/protection", tag: administrator, act: changesVHost(audit.OpVHostPut), serve: protectVHost(false), says: "allows to delete a vhost"},
	}
}

// changesVHost describes a change of the path's vhost.
func changesVHost(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act {
		return audit.Act{Operation: op, VHost: c.vhost(), Kind: "vhost", Name: c.vhost()}
	}
}

// ofVHost gives a vhost the names that RabbitMQ's HTTP API has, and in its metadata the settings that only this broker
// has.
func (c *call) ofVHost(h *administration.VHostInfo) object {
	tags := orEmpty(h.Tags)
	meta := object{
		"description": h.Description, "tags": tags, "default_queue_type": h.DefaultQueueType, "merge_policies": h.MergePolicies,
		"delayed_publish": h.DelayedPublish, "import_deaths": h.ImportDeaths, "unknown_arguments": unknownArguments(h.RefuseUnknown),
	}
	return object{
		"name": h.Name, "description": h.Description, "tags": tags, "default_queue_type": h.DefaultQueueType,
		"protected_from_deletion": h.Protected, "tracing": false, "cluster_state": object{c.api.Node: "running"}, "metadata": meta, "queues": h.Queues,
	}
}

// The ways to treat unknown arguments (C-9).
const (
	unknownWarn   = "warn"
	unknownRefuse = "refuse"
)

// unknownArguments returns the word for a setting.
func unknownArguments(refuse bool) string {
	if refuse {
		return unknownRefuse
	}
	return unknownWarn
}

// withFigures adds what the queues of a vhost add up to. What changes slowly is not counted anew for it: all that ask share
// the collector's figures.
func (o object) withFigures(h *stats.VHost) object {
	t, c := &h.Totals, &h.Counts
	o["messages"], o["messages_ready"], o["messages_unacknowledged"] = t.Messages(), t.Ready, t.Unsettled
	o["message_stats"] = object{
		"publish": c.Publish, "deliver_get": c.Deliver, "deliver": c.Deliver - min(c.Deliver, c.Get), "get": c.Get, "get_empty": c.EmptyGets,
		"redeliver": c.Redeliver, "ack": c.Ack,
	}
	addRates(o, &h.Rates)
	return o.withGrowth(&h.Growth)
}

// listVHosts leaves out those that the caller may not see.
func listVHosts(c *call) (reply, error) {
	all, err := c.api.Broker.Administration.ListVHosts(c.Context())
	if err != nil {
		return reply{}, err
	}
	build, silent := c.ofVHost, []string(nil)
	if c.figures() {
		newest, err := c.api.Stats.Queues(c.Context())
		if err != nil {
			return reply{}, err
		}
		build = func(h *administration.VHostInfo) object { return c.ofVHost(h).withFigures(newest.VHost(h.Name)) }
		silent = newest.Silent
	}
	return c.list(of(all, func(h *administration.VHostInfo) string { return h.Name }, build), silent)
}

// visibleVHost returns the path's vhost if the caller may see it (VH-12).
func (c *call) visibleVHost() (administration.VHostInfo, error) {
	h, found, err := c.findVHost()
	if err == nil && !found {
		err = missing("vhost", "", c.vhost())
	}
	return h, err
}

// findVHost is visibleVHost for a vhost that need not exist.
func (c *call) findVHost() (h administration.VHostInfo, found bool, err error) {
	all, err := c.api.Broker.Administration.ListVHosts(c.Context())
	for _, x := range all {
		if x.Name == c.vhost() {
			return x, true, nil
		}
	}
	return h, false, err
}

// eachVHost calls list for the vhosts of a list that names none: once for all of them, with "", if the caller may see
// all, else for each one that it may see (VH-12).
func (c *call) eachVHost(list func(vhost string) error) error {
	if vhost := c.vhost(); vhost != "" || c.api.Broker.Logins.Require(c.Context(), monitoring) == nil {
		return list(vhost)
	}
	all, err := c.api.Broker.Administration.ListVHosts(c.Context())
	for i := range all {
		err = errors.Join(err, list(all[i].Name))
	}
	return err
}

// getVHost answers 404 for a vhost that the caller may not see.
func getVHost(c *call) (reply, error) {
	h, err := c.visibleVHost()
	if err != nil {
		return reply{}, err
	}
	if !c.figures() {
		return reply{body: c.ofVHost(&h)}, nil
	}
	newest, err := c.api.Stats.Queues(c.Context())
	if err != nil {
		return reply{}, err
	}
	return reply{body: c.ofVHost(&h).withFigures(newest.VHost(h.Name)), silent: newest.Silent}, nil
}

// putVHost keeps settings that the body does not name.
func putVHost(c *call) (reply, error) {
	body, err := c.object()
	if err != nil {
		return reply{}, err
	}
	old, found, err := c.findVHost()
	if err != nil {
		return reply{}, err
	}
	if !found {
		old.VHost = administration.VHost{Name: c.vhost(), VHostLimits: administration.NoVHostLimits()}
	}
	h, err := changedVHost(old.VHost, body)
	if err != nil {
		return reply{}, err
	}
	isNew, err := c.api.Broker.Administration.PutVHost(c.Context(), h)
	return created(isNew), err
}

// changedVHost returns a vhost with the settings of a body, which may be beside one another or in its metadata.
func changedVHost(h administration.VHost, body fields) (administration.VHost, error) {
	meta, err := body.within("metadata")
	for name, v := range meta {
		if _, beside := body[name]; !beside {
			body[name] = v
		}
	}
	errs := []error{err}
	keep := func(err error) { errs = append(errs, err) }
	h.Description, err = body.text("description", h.Description)
	keep(err)
	h.Tags, err = body.texts("tags", h.Tags)
	keep(err)
	kind, err := body.text("default_queue_type", string(h.DefaultQueueType))
	keep(err)
	if h.DefaultQueueType = administration.QueueType(kind); kind == "undefined" { // RabbitMQ's word for none
		h.DefaultQueueType = ""
	}
	for _, f := range []struct {
		name string
		to   *bool
	}{
		{"protected_from_deletion", &h.Protected},
		{"merge_policies", &h.MergePolicies},
		{"delayed_publish", &h.DelayedPublish},
		{"import_deaths", &h.ImportDeaths},
	} {
		*f.to, err = body.flag(f.name, *f.to)
		keep(err)
	}
	unknown, err := body.text("unknown_arguments", unknownArguments(h.RefuseUnknown))
	keep(err)
	if h.RefuseUnknown = unknown == unknownRefuse; !h.RefuseUnknown && unknown != unknownWarn {
		keep(bad("unknown_arguments", unknown, "want "+unknownWarn+" or "+unknownRefuse))
	}
	return h, errors.Join(errs...)
}

// deleteVHost fails for a protected vhost.
func deleteVHost(c *call) (reply, error) {
	was, err := c.api.Broker.Administration.DeleteVHost(c.Context(), c.vhost())
	if err != nil {
		return reply{}, err
	}
	return gone(was, "vhost", "", c.vhost())
}

// protectVHost sets whether a vhost can be deleted.
func protectVHost(is bool) func(c *call) (reply, error) {
	return func(c *call) (reply, error) {
		h, err := c.visibleVHost()
		if err != nil {
			return reply{}, err
		}
		h.Protected = is
		_, err = c.api.Broker.Administration.PutVHost(c.Context(), h.VHost)
		return reply{}, err
	}
}

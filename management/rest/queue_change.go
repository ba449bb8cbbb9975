package rest

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/audit"
)

// queueChangeRoutes change queues.
func queueChangeRoutes() []route {
	return []route{
		{method: "PUT", path: "/api/queues/{vhost}/{name}", tag: management, act: changesQueue(audit.OpQueueDeclare), serve: putQueue, says: "declares a queue"},
		{method: "DELETE", path: "/api/queues/{vhost}/{name}", tag: management, act: changesQueue(audit.OpQueueDelete), serve: deleteQueue, query: []parameter{flagParam("if-empty", "refuses if it has messages"), flagParam("if-unused", "refuses if it has consumers")}, says: "deletes a queue; with if-empty or if-unused only such a one"},
		{method: "DELETE", path: "/api/queues/{vhost}/{name}/contents", tag: management, act: changesQueue(audit.OpQueuePurge), serve: purgeQueue, says: "purges a queue"},
		{method: "POST", path: "/api/queues/{vhost}/{name}/actions", tag: administrator, serve: actOnQueue, says: "refuses the actions that mirrored queues have"},
		{method: "GET", path: "/api/queues/{vhost}/{name}/bindings", tag: management, serve: listBindingsToQueue, query: listQuery(), says: "the bindings to a queue"},
	}
}

// changesQueue describes a change of the path's queue.
func changesQueue(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act {
		return audit.Act{Operation: op, VHost: c.vhost(), Kind: "queue", Name: c.name()}
	}
}

// putQueue declares a queue. What RabbitMQ would heed and this broker does not is refused.
func putQueue(c *call) (reply, error) {
	body, err := c.object()
	if err != nil {
		return reply{}, err
	}
	d := broker.DeclareQueue{VHost: c.vhost(), Name: c.name()}
	var errs [5]error
	d.Durable, errs[0] = body.flag("durable", true)
	d.AutoDelete, errs[1] = body.flag("auto_delete", false)
	d.Arguments, errs[2] = body.table("arguments")
	if exclusive, err := body.flag("exclusive", false); err != nil || exclusive {
		errs[3] = errors.Join(err, bad("exclusive", textOf(body["exclusive"]), "a queue belongs to a connection, which an HTTP request does not have; declare it over AMQP"))
	}
	if node := body["node"]; node != nil {
		errs[4] = bad("node", textOf(node), "the broker chooses the nodes; x-queue-leader-locator says how")
	}
	if err := errors.Join(errs[:]...); err != nil {
		return reply{}, err
	}
	q, err := c.api.Broker.DeclareQueue(c.Context(), d)
	out := created(q.Created)
	out.warnings = q.Warnings
	return out, err
}

// deleteQueue answers 202 if the queue still dead-letters its messages before it goes.
func deleteQueue(c *call) (reply, error) {
	b := c.api.Broker
	if _, err := b.Queues.Describe(c.Context(), c.vhost(), c.name()); err != nil {
		return reply{}, err
	}
	d, err := b.DeleteQueue(c.Context(), c.vhost(), c.name(), broker.Deletion{IfEmpty: c.flag("if-empty"), IfUnused: c.flag("if-unused")})
	if d.DrainDeleting {
		return reply{code: http.StatusAccepted}, err
	}
	return reply{}, err
}

func purgeQueue(c *call) (reply, error) {
	_, err := c.api.Broker.PurgeQueue(c.Context(), c.vhost(), c.name())
	return reply{}, err
}

// actOnQueue refuses all actions, since there are no mirrored queues.
func actOnQueue(c *call) (reply, error) {
	body, err := c.object()
	if err != nil {
		return reply{}, err
	}
	action, err := body.need("action")
	if err != nil {
		return reply{}, err
	}
	if _, err := c.api.Broker.Queues.Describe(c.Context(), c.vhost(), c.name()); err != nil {
		return reply{}, err
	}
	if action == "sync" || action == "cancel_sync" {
		return reply{}, bad("action", action, "is for mirrored queues; the members of a queue here keep up by themselves")
	}
	return reply{}, bad("action", strconv.Quote(action), "is not known")
}

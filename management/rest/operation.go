package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/operators"
)

// operationRoutes are about long jobs.
func operationRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/operations", tag: monitoring, always: true, serve: listOperations, query: listQuery(flagParam("running", "leaves out those that have ended")), says: "the long jobs of all nodes"},
		{method: "GET", path: "/v1/queues/{vhost}/{name}/operations", tag: monitoring, serve: listQueueOperations, query: listQuery(), says: "the long jobs of all nodes that are about one queue"},
		{method: "GET", path: "/v1/operations/{name}", tag: monitoring, always: true, serve: getOperation, says: "one long job"},
		{method: "DELETE", path: "/v1/operations/{name}", tag: administrator, act: cancelsOperation, serve: cancelOperation, says: "asks a long job to end; what it has changed stays changed"},
		{method: "GET", path: "/v1/operations/{name}/watch", tag: monitoring, serve: watchOperation, says: "the states of a long job until it has ended, as server-sent events"},
	}
}

// ofOperation shows a long job; times are in milliseconds.
func ofOperation(o *operators.Operation) object {
	return object{
		"id": o.ID.String(), "kind": string(o.Kind), "target": o.Target, "node": string(o.ID.Node), "state": string(o.State),
		"phase": o.Phase, "done": o.Done, "total": o.Total, "unit": o.Unit, "rate": o.Rate, "eta_ms": o.ETA.Milliseconds(),
		"started_ms": o.Started.UnixMilli(), "updated_ms": o.Updated.UnixMilli(), "detail": o.Detail, "error": o.Error,
	}
}

// begun is the reply to a request that begins an operation. A dry run has a plan and no operation.
func begun(op operators.Operation, p operators.Plan, err error) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	if op.State == "" {
		return reply{body: object{"plan": orEmpty(p.Lines), "plan_total": p.Total}}, nil
	}
	return reply{code: http.StatusAccepted, body: object{"operation": ofOperation(&op)}}, nil
}

// listOperations names the nodes that did not answer: their jobs are missing.
func listOperations(c *call) (reply, error) {
	all, silent, err := c.api.Broker.Operators.Operations(c.Context(), c.flag("running"))
	if err != nil {
		return reply{}, err
	}
	return c.listOf(all, silent)
}

// listOf answers with long jobs.
func (c *call) listOf(all []operators.Operation, silent []string) (reply, error) {
	return c.list(of(all, func(o *operators.Operation) string { return o.ID.String() }, ofOperation), silent)
}

// listQueueOperations answers 404 for a queue that is not there.
func listQueueOperations(c *call) (reply, error) {
	if _, err := c.api.Broker.Queues.Describe(c.Context(), c.vhost(), c.name()); err != nil {
		return reply{}, err
	}
	all, silent, err := c.api.Broker.Operators.OperationsOfQueue(c.Context(), c.vhost(), c.name())
	if err != nil {
		return reply{}, err
	}
	return c.listOf(all, silent)
}

// getOperation asks the node that is part of the id, as the others do not know the job.
func getOperation(c *call) (reply, error) {
	op, err := c.api.Broker.Operators.AwaitOperation(c.Context(), c.name(), 0)
	if err != nil {
		return reply{}, err
	}
	return reply{body: ofOperation(&op)}, nil
}

func cancelsOperation(c *call) audit.Act {
	return audit.Act{Operation: audit.OpOperationCancel, Kind: "operation", Name: c.name()}
}

// cancelOperation returns the job as it was: it may take a while to end.
func cancelOperation(c *call) (reply, error) {
	op, err := c.api.Broker.Operators.CancelOperation(c.Context(), c.name())
	if err != nil {
		return reply{}, err
	}
	return reply{code: http.StatusAccepted, body: object{"operation": ofOperation(&op)}}, nil
}

// watchTick is the minimum time between two states in a stream of them.
const watchTick = 100 * time.Millisecond

// watchOperation sends the state of a job each time it has changed.
func watchOperation(c *call) (reply, error) {
	return c.stream(func(ctx context.Context, s *stream) error {
		tick := time.NewTicker(watchTick)
		defer tick.Stop()
		for known := uint64(0); ; {
			op, err := c.api.Broker.Operators.AwaitOperation(ctx, c.name(), known)
			if err == nil {
				err = s.send("", "", ofOperation(&op))
			}
			if err != nil {
				return err
			}
			if op.State != operators.OperationRunning {
				return s.send("", eventEnd, object{})
			}
			known = op.Version
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

package rest

import (
	"slices"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/operators"
)

// attemptRoutes are about attempts to log in.
func attemptRoutes() []route {
	return []route{
		{method: "GET", path: "/api/auth/attempts/{node}", tag: monitoring, always: true, serve: listAttempts(false), query: listQuery(flagParam("all", "shows gRPC too, which RabbitMQ's tools do not know")), says: "how many attempts to log in a node has accepted and refused, by protocol"},
		{method: "GET", path: "/api/auth/attempts/{node}/source", tag: monitoring, always: true, serve: listAttempts(true), query: listQuery(), says: "the same by address and user, of the sources that were seen last"},
		{method: "DELETE", path: "/api/auth/attempts/{node}", tag: administrator, always: true, act: resetsAttempts, serve: resetAttempts, says: "has a node count attempts to log in anew"},
		{method: "DELETE", path: "/api/auth/attempts/{node}/source", tag: administrator, always: true, act: resetsAttempts, serve: resetAttempts, says: "the same"},
	}
}

// resetsAttempts describes that a node counts anew.
func resetsAttempts(c *call) audit.Act {
	return audit.Act{Operation: audit.OpLoginsReset, Kind: "node", Name: c.PathValue("node")}
}

// protocolOfAttempts is RabbitMQ's name for a protocol.
func protocolOfAttempts(name string) string {
	if name == "amqp" {
		return "amqp091"
	}
	return name
}

// ofAttempts gives counts the names that RabbitMQ's HTTP API has.
func ofAttempts(a *operators.LoginAttempts) object {
	return object{
		"protocol": protocolOfAttempts(a.Protocol), "auth_attempts": a.Accepted + a.Refused, "auth_attempts_failed": a.Refused,
		"auth_attempts_succeeded": a.Accepted,
	}
}

// listAttempts shows what a node has counted, by protocol or by source.
func listAttempts(bySource bool) func(c *call) (reply, error) {
	return func(c *call) (reply, error) {
		protocols, sources, err := c.api.Broker.Operators.LoginAttempts(c.Context(), c.PathValue("node"))
		if err != nil {
			return reply{}, err
		}
		if !bySource && !c.flag("all") {
			// rabbitmqadmin shows nothing at all if there is a protocol that it does not know.
			protocols = slices.DeleteFunc(protocols, func(a operators.LoginAttempts) bool { return a.Protocol == "grpc" })
		}
		if !bySource {
			return c.list(of(protocols, func(a *operators.LoginAttempts) string { return protocolOfAttempts(a.Protocol) }, ofAttempts), nil)
		}
		return c.list(of(sources, func(a *operators.LoginAttempts) string { return a.User }, func(a *operators.LoginAttempts) object {
			out := ofAttempts(a)
			out["remote_address"], out["username"] = a.Address, a.User
			return out
		}), nil)
	}
}

// resetAttempts forgets both counts, as in RabbitMQ.
func resetAttempts(c *call) (reply, error) {
	return reply{}, c.api.Broker.Operators.ResetLoginAttempts(c.Context(), c.PathValue("node"))
}

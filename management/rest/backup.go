package rest

import (
	"slices"

	"github.com/quorate/quorate/broker/operators"
)

// backupRoutes are about backups and restores. The program that makes one carries it out: a node needs no access to the
// place of a backup, and nobody can have it write to one.
func backupRoutes() []route {
	return []route{
		{
			method: "GET", path: "/v1/backups", tag: monitoring, always: true, serve: listBackups, query: listQuery(flagParam("running", "leaves out those that have ended")),
			says: "the backups and restores that run on all nodes, or have ended since the node was started; their names, which filter and sort them, are what is copied and where",
		},
	}
}

// listBackups names the nodes that did not answer: their jobs are missing.
func listBackups(c *call) (reply, error) {
	all, silent, err := c.api.Broker.Operators.Operations(c.Context(), c.flag("running"))
	if err != nil {
		return reply{}, err
	}
	all = slices.DeleteFunc(all, func(o operators.Operation) bool {
		return o.Kind != operators.KindBackup && o.Kind != operators.KindRestore
	})
	return c.list(of(all, func(o *operators.Operation) string { return o.Target }, ofOperation), silent)
}

package admintest

import (
	"strings"
	"testing"
)

// Queues, channels, nodes and the overview are shown.
func TestFigures(t *testing.T) {
	a := start(t)
	for path, steps := range map[string][]step{
		"/api/queues":   {do("declare queue name=q", "queue declared"), soon("list queues", "q", "0"), do("-V / list queues name type", "quorum")},
		"/api/nodes":    {do("list nodes", a.cluster.Name(0), a.cluster.Name(2)), do("list nodes name running", "True")},
		"/api/overview": {do("show overview", "cluster_name", "test"), do("show overview object_totals.exchanges", "object_totals.exchanges")},
	} {
		t.Run(path, func(t *testing.T) {
			b := a
			b.t = t
			b.follow("guest", steps)
		})
	}
}

// Users and permissions are declared, listed and deleted.
func TestUsers(t *testing.T) {
	a := start(t)
	a.follow("guest", []step{
		do("declare user name=ann password=ann tags=management", "user declared"),
		do("list users", "ann", "management"),
		do("declare permission vhost=/ user=ann configure=^a write=^a read=^a", "permission declared"),
		do("list permissions", "ann", "^a"),
	})
	a.follow("ann", []step{
		do("declare queue name=a", "queue declared"), do("delete queue name=a", "queue deleted"), do("list exchanges", "amq.topic"),
		refused("declare queue name=b", "403"), refused("list users", "403"),
	})
	a.follow("guest", []step{
		do("delete permission vhost=/ user=ann", "permission deleted"),
		do(`declare user name=ann password_hash= tags=`, "user declared"),
		do("delete user name=ann", "user deleted"), refused("delete user name=ann", "Not found"),
	})
}

// Definitions are exported and imported, of all vhosts and of one.
func TestDefinitions(t *testing.T) {
	a := start(t)
	a.follow("guest", []step{
		do("declare vhost name=v", "vhost declared"), do("-V v declare queue name=inv", "queue declared"),
		do("declare queue name=all", "queue declared"), do("declare exchange name=x type=topic", "exchange declared"),
		do("declare binding source=x destination=all routing_key=k", "binding declared"),
		do("export all.json", "Exported definitions"), do("-V v export v.json", "Exported definitions"),
		do("delete queue name=all", "queue deleted"), do("delete exchange name=x", "exchange deleted"), do("delete vhost name=v", "vhost deleted"),
	})
	if text := a.file("all.json"); !strings.Contains(text, `"all"`) || !strings.Contains(text, `"inv"`) {
		t.Error(text)
	}
	if text := a.file("v.json"); strings.Contains(text, `"all"`) || !strings.Contains(text, `"inv"`) {
		t.Error(text)
	}
	a.follow("guest", []step{
		do("import all.json", "Uploaded definitions"), do("list bindings", "all", "inv", "k"),
		do("-V v delete queue name=inv", "queue deleted"), do("-V v import v.json", "Uploaded definitions"), do("-V v list bindings", "inv"),
	})
}

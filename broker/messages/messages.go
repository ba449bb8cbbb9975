// Package messages deletes, moves and redrives chosen messages of a queue, as operations of a node (G-13). Errors are those
// of package failure.
package messages

import (
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/queues"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
)

// Config has the parts of Messages.
type Config struct {
	Cluster     *cluster.Cluster
	Alternate   func(*catalog.View, *catalog.Exchange) (string, bool) // an exchange's alternate exchange (EX-12)
	Serving     *serving.Node
	Logins      *identity.Logins
	Permissions *permission.Permissions
	Operators   *operators.Operators
	Queues      *queues.Queues
}

// Messages starts operations on chosen messages. All methods may be called concurrently.
type Messages struct {
	cluster     *cluster.Cluster
	alternate   func(*catalog.View, *catalog.Exchange) (string, bool)
	serving     *serving.Node
	logins      *identity.Logins
	permissions *permission.Permissions
	operators   *operators.Operators
	queues      *queues.Queues
}

// New returns the Messages of a node.
func New(c Config) *Messages {
	return &Messages{
		cluster: c.Cluster, alternate: c.Alternate, serving: c.Serving, logins: c.Logins,
		permissions: c.Permissions, operators: c.Operators, queues: c.Queues,
	}
}

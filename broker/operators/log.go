package operators

import (
	"context"
	"log/slog"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
)

// LogPage are lines of a node's log.
type LogPage = peer.LogPage

// LogPosition is a place in the log of a life of a node; the zero value stands before all lines that the node keeps.
type LogPosition = peer.Position

// ReadLog returns lines of a node's log that have a level at least, behind a position. With wait it waits a while for a
// newer line. Errors: NotFound; Unavailable if the node does not answer.
func (o *Operators) ReadLog(ctx context.Context, node string, at LogPosition, level slog.Level, wait bool) (LogPage, error) {
	about, err := o.knownNode(node)
	if err != nil {
		return LogPage{}, err
	}
	p, err := o.cluster.Logs().Read(ctx, id.NodeID(node), at, level, wait)
	return p, failure.Translate(err, about)
}

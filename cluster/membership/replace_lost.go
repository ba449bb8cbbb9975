package membership

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// replaceLost runs while this node leads the catalog. It gives up what nodes had stored that have asked to join with
// an empty data directory for ReconcileConfig.ReplaceAfter. If that would lose messages, or leave a group without a
// majority, an operator must decide. It reports whether such a node asks to join.
func (rc *Reconciler) replaceLost(now time.Time, logged map[id.NodeID]string) (waiting bool) {
	after := rc.cfg.Settings.ReplaceAfter
	if after == 0 {
		return false
	}
	for n := range rc.cfg.View().Nodes() {
		k, knocks := rc.cfg.Judge.Of(n.ID, now)
		if !knocks || !k.Fresh || n.Vacant {
			delete(logged, n.ID)
			continue
		}
		waiting = true
		if now.Sub(k.Since) < after {
			continue
		}
		ctx, cancel := wait.Within(rc.cfg.Life, rc.cfg.Life, rc.cfg.CommandTimeout)
		err := rc.cfg.Operator.ReplaceNode(ctx, n.ID, false, nil)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) && logged[n.ID] != err.Error() {
			logged[n.ID] = err.Error()
			rc.cfg.Logger.Warn("a node waits with an empty data directory and is not let in by itself", "peer", string(n.ID), "error", err)
		}
	}
	return waiting
}

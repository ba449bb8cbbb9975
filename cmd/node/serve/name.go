package serve

import (
	"context"
	"fmt"
	"time"
)

const (
	// nameEvery is the interval of checks whether this node's own name resolves. Every nameLogged a
	// failure is logged. A new name resolves within nameNew; after that failures are logged as
	// warnings, every nameNew.
	nameEvery  = time.Second
	nameLogged = 5 * time.Second
	nameNew    = time.Minute
)

// watchName checks whether this node's own name resolves, until it does: an orchestrator publishes
// the name shortly after the process has started. Nothing waits for it, because other nodes first
// reach this one at its gossip address. But clients receive the name.
func (n *node) watchName(name string, lookup func(context.Context, string) ([]string, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.watches.Go(func() {
		select {
		case <-n.unwatch:
			cancel()
		case <-ctx.Done():
		}
	})
	tick := time.NewTicker(nameEvery)
	defer tick.Stop()
	began := time.Now()
	for logged := (time.Time{}); ; {
		_, err := lookup(ctx, name)
		waited := time.Since(began).Round(time.Millisecond)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			n.health.named("")
			if !logged.IsZero() {
				n.log.Info("the node's own name resolves", "advertise_host", name, "waited", waited)
			}
			return
		case waited < nameNew && time.Since(logged) >= nameLogged:
			logged = time.Now()
			n.log.Info("the node's own name does not resolve yet; the node starts without it", "advertise_host", name, "waited", waited, "error", err)
		case waited >= nameNew && time.Since(logged) >= nameNew:
			logged = time.Now()
			n.log.Warn("the node's own name does not resolve: clients that receive it, and nodes that cannot reach this node's gossip address, "+
				"cannot find this node: correct advertise.host or DNS", "advertise_host", name, "waited", waited, "error", err)
		}
		n.health.named(fmt.Sprintf("advertise.host %q does not resolve: %v", name, err))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

package serve

import (
	"context"
	"fmt"
	"time"
)

const (
	// nameEvery is the time between two looks whether this node's own name resolves. At first
	// they are told every nameTold; a name that is new resolves within nameNew, and one that
	// does not is told as a warning every nameNew.
	nameEvery = time.Second
	nameTold  = 5 * time.Second
	nameNew   = time.Minute
)

// watchName looks whether this node's own name resolves until it does: in an orchestrator
// the name is published a little after the process has started. Nothing waits for it: other
// nodes reach this one at the address of its gossip first. It is told to clients, though.
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
	for told := (time.Time{}); ; {
		_, err := lookup(ctx, name)
		waited := time.Since(began).Round(time.Millisecond)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			n.health.named("")
			if !told.IsZero() {
				n.log.Info("own name resolves", "advertise_host", name, "waited", waited)
			}
			return
		case waited < nameNew && time.Since(told) >= nameTold:
			told = time.Now()
			n.log.Info("own name does not resolve yet: the node starts without it", "advertise_host", name, "waited", waited, "error", err)
		case waited >= nameNew && time.Since(told) >= nameNew:
			told = time.Now()
			n.log.Warn("own name does not resolve: clients that are told it, and nodes that do not reach the address of this node's gossip, "+
				"do not find this node: correct advertise.host or DNS", "advertise_host", name, "waited", waited, "error", err)
		}
		n.health.named(fmt.Sprintf("advertise.host %q does not resolve: %v", name, err))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

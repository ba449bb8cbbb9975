package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/identity"
)

// Bounds of what a stop waits for after the drain. With those of the parts below they add up to less than StopLimit; see
// docs/limits.md, "Stopping".
const (
	// clientsTimeout bounds the wait for clients' calls, and for AMQP clients to answer connection.close.
	clientsTimeout = 6 * time.Second
	// failedTimeout bounds the same on a node that has failed.
	failedTimeout = time.Second
	// peersTimeout bounds the wait for other nodes.
	peersTimeout = 5 * time.Second
	// lastSpans is how long a node that stops waits for the collector of traces.
	lastSpans = 2 * time.Second
)

// The phases of a stop, besides those of cluster.
const (
	phaseStart      = "starting"
	phaseDrain      = "draining"
	phaseClients    = "sending clients away"
	phaseBackground = "ending the broker's background work"
	phaseSpans      = "sending the last spans"
	phaseHTTP       = "closing the HTTP listeners"
	phaseWatches    = "ending what watches files and names"
)

// stop drains the node while it serves clients, unless the node has failed; then it closes the
// parts from the outside in. A part that does not end ends the process.
func (n *node) stop(drain bool) error {
	limit := StopLimit
	if n.api != nil && drain {
		limit += n.cfg.Timeouts.Drain
	}
	n.stopping.within(limit)
	defer n.stopping.done()
	if drain { // else it may start again in this process
		n.notifyManager(managerStopping, "STATUS=drains and stops")
	}
	var errs []error
	if n.api != nil && drain {
		n.drain()
	}
	n.stopping.enter(phaseClients)
	errs = append(errs, n.sendClientsAway(drain))
	if n.broker != nil {
		n.stopping.enter(phaseBackground)
		n.broker.Close()
	}
	if n.part != nil { // which enters the phases of its own
		bounded(peersTimeout, func(ctx context.Context) { errs = append(errs, n.part.Close(ctx)) })
	}
	n.stopping.enter(phaseSpans)
	n.closeTracing()
	n.stopping.enter(phaseHTTP)
	if n.http != nil {
		n.health.close()
		errs = append(errs, n.http.Close())
	}
	if n.debug != nil {
		errs = append(errs, n.debug.Close())
	}
	n.stopping.enter(phaseWatches)
	close(n.unwatch)
	n.watches.Wait()
	n.log.Info("the node is stopped", "node", n.cfg.NodeID)
	return errors.Join(errs...)
}

// drain moves leadership to other nodes, for as long as the settings allow.
func (n *node) drain() {
	n.stopping.enter(phaseDrain)
	n.log.Info("the node is draining", "at_most", n.cfg.Timeouts.Drain)
	n.part.Unloader().Stop()
	bounded(n.cfg.Timeouts.Drain, func(ctx context.Context) {
		if _, err := n.broker.Operators.Drain(identity.WithIdentity(ctx, identity.Itself()), ""); err != nil {
			n.log.Warn("the drain is incomplete; other nodes take over by election", "error", err)
		}
	})
}

// sendClientsAway closes all clients' listeners and connections at the same time. On a node that
// has failed clients would wait in vain, and other nodes can serve them.
func (n *node) sendClientsAway(drained bool) (err error) {
	within := clientsTimeout
	if !drained {
		within = failedTimeout
	}
	var doors sync.WaitGroup
	if n.api != nil {
		doors.Go(func() {
			bounded(within, func(ctx context.Context) {
				if err := n.api.Shutdown(ctx); err != nil {
					n.log.Warn("clients were cut off", "error", err)
				}
			})
		})
	}
	for _, s := range n.amqp {
		doors.Go(func() {
			bounded(within, func(ctx context.Context) {
				if err := s.Shutdown(ctx); err != nil {
					n.log.Warn("AMQP clients were cut off", "error", err)
				}
			})
		})
	}
	if n.management != nil {
		err = n.management.Close()
		n.operators.Close()
	}
	doors.Wait()
	if n.stats != nil {
		n.stats.Close()
	}
	return err
}

// bounded runs f with a context that ends after d.
func bounded(d time.Duration, f func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	f(ctx)
}

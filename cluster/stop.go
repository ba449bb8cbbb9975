package cluster

import (
	"context"
	"errors"
	"time"
)

const (
	// leaveTimeout bounds how long a stopping node waits for others to notice.
	leaveTimeout = 2 * time.Second
	// linksTimeout bounds how long it waits for calls of other nodes that it answers.
	linksTimeout = 3 * time.Second
)

// Close leaves gossip, stops the groups and releases the data directory. ctx bounds how long it waits for other nodes; the
// disk, which may hang, is waited for without a bound, and Config.Failed notified of it. The first call counts, others
// return the same.
func (c *Cluster) Close(ctx context.Context) error {
	c.closing.Do(func() { c.closeErr = c.shutdown(ctx) })
	return c.closeErr
}

// shutdown stops what runs, in the order in which each part can still use those below.
func (c *Cluster) shutdown(ctx context.Context) error {
	var errs []error
	phase := func(p StopPhase, there bool, end func() error) {
		if there {
			c.stops(p)
			errs = append(errs, end())
		}
	}
	phase(StopForwarders, c.forwarders != nil, func() error { c.forwarders.Close(); return nil })
	c.stop()
	if c.storage != nil {
		c.storage.EndWaits()
	}
	phase(StopOperations, c.operations != nil, func() error { c.operations.Close(); return nil })
	phase(StopQueues, c.gateway != nil, func() error { c.gateway.Close(); return nil })
	phase(StopGossip, c.members != nil, func() error { c.leave(ctx); return nil })
	phase(StopGroups, c.host != nil, func() error {
		// Serve keeps running for the groups; all other loops end with c.ctx.
		c.marking.Wait()
		return c.host.Close()
	})
	phase(StopCatalog, c.catalog != nil, func() error { return c.catalog.Close() })
	phase(StopLinks, c.mux != nil, func() error { return c.unlink(ctx) })
	phase(StopLog, c.storage != nil, func() error { return c.storage.Close() })
	c.undisk()
	phase(StopLoops, true, func() error { c.loops.Wait(); return nil })
	phase(StopDirectory, true, func() error {
		var err error
		if c.booted.Load() {
			err = c.writeMark()
		}
		return errors.Join(err, c.dir.Close())
	})
	return errors.Join(errs...)
}

// stops notifies of the phase that begins.
func (c *Cluster) stops(p StopPhase) {
	if c.cfg.Stopping != nil {
		c.cfg.Stopping(p)
	}
}

// leave notifies the others that this node leaves on purpose. When all stop together, nobody is left to receive it.
// That is no fault, because they would find out by themselves.
func (c *Cluster) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := c.members.Leave(ctx); err != nil {
		c.log.Warn("leaving was not heard by all", "error", err)
	}
}

// unlink ends the links. Their time does not depend on what the parts before have left of ctx: with none, all would look
// as if they did not end.
func (c *Cluster) unlink(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), linksTimeout)
	defer cancel()
	return c.mux.Close(ctx)
}

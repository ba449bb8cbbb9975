package transport

import (
	"errors"
	"math/rand/v2"
	"time"
)

// run connects, serves the connection until it breaks, and connects again.
func (p *peer) run() {
	defer close(p.done)
	if p.after != nil {
		<-p.after
	}
	defer p.dropFound()
	var wait time.Duration
	var logged string
	var failing time.Time // since when; zero: the last connection was opened
	for p.ctx.Err() == nil {
		pc, err := p.dial(failing)
		if err == nil {
			failing = time.Time{}
			logged, wait = "", p.l.config.RetryMin
			p.attach(pc)
			p.logUp(pc)
			err = pc.serve(func() error { return p.seek(pc) })
			p.detach()
			if p.ctx.Err() == nil {
				p.l.log.Warn("link went down", "peer", p.node, "epoch", pc.remote.Epoch, "error", err)
			}
		} else if p.ctx.Err() == nil && !errors.Is(err, ErrUnknownPeer) {
			wait = p.failed(err, wait, &logged)
			if failing.IsZero() {
				failing = time.Now()
			}
		}
		p.pause(wait, errors.Is(err, ErrUnknownPeer))
	}
}

// dial returns the next connection: the one that was found while the last one was up, or a new
// one. Opening has failed since a time, unless that is zero.
func (p *peer) dial(failing time.Time) (*peerConn, error) {
	if pc := p.takeFound(); pc != nil {
		return pc, nil
	}
	var since time.Duration
	if !failing.IsZero() {
		since = time.Since(failing)
	}
	return p.dialEither(since)
}

// dropFound closes a found connection that nobody will take.
func (p *peer) dropFound() {
	if pc := p.takeFound(); pc != nil {
		pc.drop()
	}
}

// logUp warns of a detour: it works, but the network needs mending.
func (p *peer) logUp(pc *peerConn) {
	if pc.direct() {
		p.l.log.Info("link is up", "peer", p.node, "epoch", pc.remote.Epoch, "address", pc.address)
		return
	}
	p.l.log.Warn("link is up by a detour: this node does not reach the peer itself, another one passes the link on; look at the network between the two",
		"peer", p.node, "epoch", pc.remote.Epoch, "address", pc.address, "through", pc.via.remote.Node)
}

// failed records an attempt that did not succeed, logs a new reason once, and returns how long to wait.
func (p *peer) failed(err error, wait time.Duration, logged *string) time.Duration {
	p.failure.Add(1)
	p.mu.Lock()
	p.lastErr = err
	p.mu.Unlock()
	reason := "unreachable"
	if refused(err) {
		reason = err.Error()
	}
	if *logged != reason {
		*logged = reason
		if refused(err) {
			p.l.log.Error("peer and this node do not accept each other", "peer", p.node, "error", err)
		} else {
			p.l.log.Warn("cannot reach the peer, will go on trying", "peer", p.node, "error", err)
		}
	}
	if refused(err) {
		return p.l.config.RetryRefuse
	}
	return min(max(2*wait, p.l.config.RetryMin), p.l.config.RetryMax)
}

// pause waits for the given time, up to a third longer or shorter, or only for a kick.
func (p *peer) pause(wait time.Duration, forKick bool) {
	var due <-chan time.Time
	if !forKick {
		t := time.NewTimer(wait*2/3 + rand.N(wait*2/3+1)) //nolint:gosec // spreads tries
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-p.kick:
	case <-p.ctx.Done():
	}
}

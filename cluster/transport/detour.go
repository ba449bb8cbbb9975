package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// A detour is a way to a peer through a third node, for as long as there is no direct one.
// The third node passes bytes on between a stream, which the one end opened to it, and a
// connection, which it opens to the other. So a peer connection on a detour is one like any other:
// both ends see who is there by the same handshake, with the same TLS, and the node between
// them can read nothing that TLS protects. It goes through one node and no further, because
// that takes the direct way alone.

// dialDetour opens a connection to the peer through the first node that has a way there.
func (p *peer) dialDetour(ctx context.Context) (*peerConn, error) {
	err := error(nil)
	for _, via := range p.between(p.node) {
		pc, failed := p.open(ctx, via)
		if failed == nil || ctx.Err() != nil {
			return pc, failed
		}
		err = errors.Join(err, failed)
	}
	if err == nil {
		err = fmt.Errorf("%w: node %q, and no other node is connected that could pass a link on", ErrNotConnected, p.node)
	}
	return nil, err
}

// dialEither opens a connection: by the direct way, or by a detour if that fails, has failed for
// long enough, or does not lead there in time. A peer that answers but does not agree is no fault of the route.
func (p *peer) dialEither(failing time.Duration) (*peerConn, error) {
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	type attempt struct {
		s      *peerConn
		err    error
		direct bool
	}
	done, tried := make(chan attempt, 2), 1
	go func() {
		pc, err := p.open(ctx, nil)
		done <- attempt{pc, err, true}
	}()
	detour := func() {
		tried++
		go func() {
			pc, err := p.dialDetour(ctx)
			done <- attempt{pc, err, false}
		}()
	}
	late := time.NewTimer(p.l.config.DetourAfter)
	defer late.Stop()
	var fault error
	for ended := 0; ended < tried; {
		var a attempt
		select {
		case <-late.C:
			detour()
			continue
		case a = <-done:
			ended++
		}
		if a.err != nil && a.direct { // the way that is to be mended
			fault = a.err
			if wanted := failing >= p.l.config.DetourAfter && !refused(a.err); wanted && tried == 1 {
				late.Stop()
				detour()
			}
		}
		if a.err == nil || refused(fault) {
			stop()
			for ; ended < tried; ended++ {
				if other := <-done; other.s != nil {
					other.s.drop()
				}
			}
			return a.s, a.err
		}
		fault = cmp.Or(fault, a.err)
	}
	return nil, fault
}

// seek looks for another route while this one is silent or a detour, and ends the connection in favour of it.
func (p *peer) seek(pc *peerConn) error {
	look := make(<-chan time.Time)
	if !pc.direct() {
		t := time.NewTicker(pc.l.config.DetourBack)
		defer t.Stop()
		look = t.C
	}
	for {
		var found *peerConn
		var err error
		select {
		case <-pc.astray:
			found, err = p.dialDetour(pc.ctx)
		case <-look:
			found, err = p.open(pc.ctx, nil)
		case <-pc.ctx.Done():
			return context.Cause(pc.ctx)
		}
		switch {
		case err != nil:
			continue
		case found.direct():
			err = fmt.Errorf("%w: node %q can be reached directly again", ErrNotConnected, pc.node)
		case !pc.lostWay():
			found.drop() // it was silent for a moment
			continue
		default:
			err = fmt.Errorf("%w: node %q is silent, but another node reaches it", ErrNotConnected, pc.node)
		}
		p.mu.Lock()
		p.found = found
		p.mu.Unlock()
		return err
	}
}

// lostWay reports whether the peer has been silent on a direct way for long enough to look for
// another one.
func (pc *peerConn) lostWay() bool {
	p := pc.pulse
	return pc.direct() && p.Judges(pc.began, pc.remote.Epoch) && p.Unanswered(time.Now(), pc.began) >= pc.l.config.DetourAfter+p.Leniency()
}

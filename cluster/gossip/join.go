package gossip

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxJoins bounds the addresses that are tried at the same time.
	maxJoins = 8
	// slowJoins is how many times JoinEvery lies between attempts that change nothing.
	slowJoins = 10
	// lostTime is how long the last address of a lost node is tried.
	lostTime = 24 * time.Hour
)

// joiner looks for nodes that are missing, as long as some are: those of Config.Join and
// those that were known. So a cluster that fell apart, or came up in parts, becomes one again. Its run goroutine owns
// it.
type joiner struct {
	m      *Members
	logged map[string]bool // reasons that were logged since nobody was missing
	// stale: something has changed since states were last exchanged. A node that joins another one while that one
	// learns of others may get neither a state with them in it, nor the datagrams about them, which nobody repeats
	// for half a minute.
	stale bool
}

// run tries again often while the node is alone or its name is contested, and rarely once all is well.
func (j *joiner) run() {
	wait := time.Duration(0)
	every := j.m.config.JoinEvery
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			j.m.expireClaims(time.Now())
			tried := j.attempt()
			j.exchange()
			wait = min(wait+every, slowJoins*every)
			switch {
			case j.m.alone() || j.m.claims():
				wait = every
			case !tried:
				wait = slowJoins * every // news end the wait
			}
		case <-j.m.alive:
			j.stale = true
			wait = every
		case <-j.m.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// attempt tries all addresses at which a node is missing; false: none is.
func (j *joiner) attempt() bool {
	missing := j.missing()
	if len(missing) == 0 {
		clear(j.logged)
		return false
	}
	for _, err := range j.join(missing) {
		j.explain(err)
	}
	return true
}

// exchange exchanges states with other nodes once after news, so that what was missed is known.
func (j *joiner) exchange() {
	if !j.stale {
		return
	}
	there := j.m.thereAt()
	there = there[:min(len(there), maxJoins)]
	if len(there) > 0 {
		j.stale = len(j.join(there)) == len(there) // who does not answer is for probes to find out
	}
}

// join exchanges states with the nodes at all addresses, and returns why it could not.
func (j *joiner) join(addresses []string) []error {
	var all sync.WaitGroup
	slots := make(chan struct{}, maxJoins)
	reasons := make(chan error, len(addresses))
	for _, address := range addresses {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if j.m.ctx.Err() != nil {
				return
			}
			if _, err := j.m.list.Join([]string{address}); err != nil {
				reasons <- err
			}
		})
	}
	all.Wait()
	close(reasons)
	var failed []error
	for err := range reasons {
		failed = append(failed, err)
	}
	return failed
}

// missing returns the addresses at which no node that is alive gossips, this one aside.
func (j *joiner) missing() []string {
	wanted := j.resolve()
	own := j.m.GossipAddr()
	j.m.mu.Lock()
	defer j.m.mu.Unlock()
	alive := []string{own}
	for _, k := range j.m.nodes {
		switch {
		case k.GossipAddr == "":
		case k.Alive && k.claimed.IsZero():
			alive = append(alive, k.GossipAddr)
		case k.claimed.IsZero() && time.Since(k.lost) > lostTime:
		default:
			wanted = append(wanted, k.GossipAddr)
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	return slices.DeleteFunc(wanted, func(a string) bool { return slices.Contains(alive, a) })
}

// resolve looks up Config.Join; a name may stand for many nodes, and for others later.
func (j *joiner) resolve() []string {
	var found []string
	for _, join := range j.m.config.Join {
		host, port, err := net.SplitHostPort(join)
		if err != nil {
			continue // Validate refuses it
		}
		ctx, cancel := context.WithTimeout(j.m.ctx, 5*time.Second)
		ips, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
		cancel()
		if err != nil {
			j.explain(err)
			continue
		}
		for _, ip := range ips {
			found = append(found, net.JoinHostPort(ip.String(), port))
		}
	}
	return found
}

// explain logs why joining fails, once per kind of reason.
func (j *joiner) explain(err error) {
	if j.m.ctx.Err() != nil {
		return
	}
	kind := "unreachable"
	switch s := err.Error(); {
	case strings.Contains(s, "crypt"):
		kind = "key"
	case strings.Contains(s, "EOF"):
		kind = "closed"
	}
	if j.logged[kind] {
		return
	}
	j.logged[kind] = true
	attrs := []any{"cluster", j.m.config.Cluster, "error", err}
	switch kind {
	case "key":
		j.m.log.Error(wrongKey, attrs...)
	case "closed":
		j.m.log.Warn("a node to join closed the connection: check that it has the same cluster name and key, "+
			"and that the address is its gossip's", attrs...)
	default:
		j.m.log.Warn("a node to join cannot be reached, will go on trying", attrs...)
	}
}

// thereAt returns the addresses of the other nodes that are alive, in no order.
func (m *Members) thereAt() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, k := range m.nodes {
		if k.Alive && k.GossipAddr != "" {
			all = append(all, k.GossipAddr)
		}
	}
	return all
}

// alone reports that no other node is alive.
func (m *Members) alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, k := range m.nodes {
		if n != m.config.Node.ID && k.Alive {
			return false
		}
	}
	return true
}

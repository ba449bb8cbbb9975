package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/quorate/quorate/id"
)

// Start begins to gossip and to join; it returns when this node listens.
func Start(c Config) (*Members, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	c.Node.Alive = true
	m := &Members{
		config: c, log: c.Logger,
		events: make(chan Event), wake: make(chan struct{}, 1), alive: make(chan struct{}, 1),
		nodes: map[id.NodeID]*known{c.Node.ID: {Node: c.Node}},
	}
	conf, err := m.listConfig()
	if err != nil {
		return nil, err
	}
	ports, err := listenGated(conf, c.Gate, conf.Logger)
	if err == nil {
		if m.list, err = memberlist.Create(conf); err != nil {
			err = errors.Join(err, ports.Shutdown())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("gossip: listening for gossip at %s: %w: choose a free address, "+
			"and set the advertised one if others reach this node by another", c.BindAddr, err)
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.loops.Go(m.handOut)
	m.loops.Go((&joiner{m: m, logged: map[string]bool{}}).run)
	return m, nil
}

// gossipEvery is the interval between rounds of gossip; the start of a cluster waits for several of them.
const gossipEvery = 200 * time.Millisecond

// listConfig turns the Config into memberlist's. LAN defaults with exceptions: probes are less frequent, because
// connections show sooner which nodes are there, and a cluster at rest should be quiet; a dead node's name can be
// taken over at another address at once, because epochs, not addresses, distinguish incarnations.
func (m *Members) listConfig() (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	var err error
	if c.BindAddr, c.BindPort, err = resolveOne(m.config.BindAddr); err != nil {
		return nil, fmt.Errorf("gossip: address for gossip %q: %w", m.config.BindAddr, err)
	}
	c.AdvertisePort = c.BindPort
	if m.config.Advertise != "" {
		ip, port, found, err := advertised(m.config.Advertise, c.BindAddr, m.config.AdvertiseWait, lookupIP, ownAddresses(c.BindAddr), m.waits())
		if err != nil {
			return nil, fmt.Errorf("gossip: advertised address %q: %w", m.config.Advertise, err)
		}
		if ip != "" {
			c.AdvertiseAddr, c.AdvertisePort = ip, port
		}
		if !found {
			m.log.Warn("the advertised name does not resolve to an address of this machine: if others do not find this node, advertise an IP",
				"advertise", m.config.Advertise, "waited", m.config.AdvertiseWait, "used", cmp.Or(ip, "a private address of this machine"))
		}
	}
	c.Name = string(m.config.Node.ID)
	c.Label = m.config.Cluster
	c.SecretKey = m.config.Key
	c.ProbeInterval = m.config.ProbeEvery
	c.ProbeTimeout = m.config.ProbeEvery * 3 / 5
	c.GossipInterval = min(gossipEvery, m.config.ProbeEvery)
	c.SuspicionMult = min(c.SuspicionMult, max(2, int(suspicion/m.config.ProbeEvery)))
	c.TCPTimeout = streamTimeout
	c.EnableCompression = false // a table of 64 KiB for each packet, of which few get smaller; packets of nodes that compress are read
	c.DeadNodeReclaimTime = time.Nanosecond
	c.Logger = log.New(newLogWriter(m.log, m.config.Cluster), "", 0)
	d := delegate{m: m, meta: encodeMeta(m.config.Node)}
	c.Delegate, c.Events, c.Conflict, c.Alive = d, d, d, d
	return c, nil
}

// logWaitEvery is the time between two lines in the log about the wait for the advertised name.
const logWaitEvery = 3 * time.Second

// waits returns a function that logs, at once and from then on now and then, that this node waits for
// its advertised name.
func (m *Members) waits() func([]net.IP, error) {
	var began, logged time.Time
	return func(found []net.IP, err error) {
		now := time.Now()
		if began.IsZero() {
			began = now
			if m.config.Waits != nil {
				m.config.Waits()
			}
		}
		if now.Sub(logged) < logWaitEvery {
			return
		}
		logged = now
		m.log.Info("waiting for the advertised name to resolve to an address of this machine: an IP address needs no wait",
			"advertise", m.config.Advertise, "resolves_to", found, "error", err,
			"waited", now.Sub(began).Round(time.Millisecond), "at_most", m.config.AdvertiseWait)
	}
}

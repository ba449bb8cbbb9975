package amqp

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/broker/connections"
)

// seen is what operators see of a channel, as far as methods change it and not messages. The connection's mu guards it.
type seen struct {
	prefetch            uint16
	confirms, transacts bool
	consumers           int
}

// show makes the mode of a channel visible to operators. The goroutine that runs the channel's frames calls it after
// a change.
func (ch *channel) show() {
	ch.c.mu.Lock()
	defer ch.c.mu.Unlock()
	ch.seen.prefetch, ch.seen.confirms, ch.seen.transacts = ch.prefetch, ch.confirms, ch.tx != nil
}

// endLocked ends a consumer, once. The connection's mu is held.
func (x *consumer) endLocked() {
	if !x.ended {
		x.ended = true
		x.ch.seen.consumers--
	}
}

// opened shows the connection to operators.
func (c *conn) opened() {
	c.mu.Lock()
	c.info = connections.ConnectionInfo{
		Name: c.nc.RemoteAddr().String() + " -> " + c.nc.LocalAddr().String(), Protocol: "AMQP 0-9-1", TLS: c.s.cfg.TLS != nil,
		User: c.user(), VHost: c.vhost, Peer: c.nc.RemoteAddr().String(), Local: c.nc.LocalAddr().String(),
		ClientName: c.client.name, Product: c.client.product, Mechanism: c.client.mechanism, Properties: c.client.properties,
		FrameMax: c.frameMax, ChannelMax: uint32(c.chanMax), HeartbeatSeconds: uint32(c.heartbeat / time.Second), // of 16 bits
	}
	c.mu.Unlock()
	c.owner.Show(c.show, func(why connections.Closing) { c.force(cmp.Or(why.Reason, "closed by an operator")) })
	c.owner.ShowChannels(c.showChannels)
}

// show returns what operators see.
func (c *conn) show() connections.ConnectionInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.info
	x.Channels, x.Received, x.Sent = len(c.channels), c.received.Load(), c.sent.Load()
	switch {
	case c.closing:
		x.State = connections.ConnectionClosing
	case c.blocking.on:
		x.State = connections.ConnectionBlocked
	case c.flow.Load() > 0:
		x.State = connections.ConnectionFlow
	default:
		x.State = connections.ConnectionRunning
	}
	return x
}

// showChannels returns what operators see of the channels, by number.
func (c *conn) showChannels() []connections.ChannelInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]connections.ChannelInfo, 0, len(c.channels))
	for n, ch := range c.channels {
		x := connections.ChannelInfo{
			Number: uint32(n), State: connections.ConnectionRunning, Prefetch: uint32(ch.seen.prefetch), Confirms: ch.seen.confirms,
			Transacts: ch.seen.transacts, Consumers: ch.seen.consumers, Unsettled: uint64(len(ch.unsettled.all) - ch.unsettled.gone), // not below 0
		}
		if x.Confirms {
			x.Unconfirmed = uint64(ch.inFlight + len(ch.results)) // not below 0
		}
		switch {
		case ch.gone || c.closing:
			x.State = connections.ConnectionClosing
		case c.flow.Load() > 0:
			x.State = connections.ConnectionFlow
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b connections.ChannelInfo) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

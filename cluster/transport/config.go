package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Config describes this node's end of all connections. Zero values are the defaults.
type Config struct {
	Node  id.NodeID
	Epoch id.Epoch
	Store id.StoreID // of this node's data directory; "": the store has no name
	// Fresh reports whether no catalog has admitted this node's store yet; nil: one has. It must
	// not block.
	Fresh func() bool
	// Began returns Peer.Began of this node; nil: it reports none. It must not block.
	Began   func() uint64
	Cluster string
	// Key is the cluster's secret, the same as for gossip; empty: with TLS peers are known
	// by their certificates, without it they are not checked.
	Key []byte
	// TLS returns this node's certificate, which names it as certificate.Name says, and the
	// authorities that issue those of all nodes; nil: no TLS. It is called for every connection, so
	// that new certificates apply from the next one on, and concurrently; it must not block. All
	// nodes of a cluster have TLS, or none.
	TLS     func() (own tls.Certificate, authorities *x509.CertPool)
	Handler Handler
	// Calls answers the calls of proto/node/v1 other than Link and InstallSnapshot; nil: they are
	// refused as unimplemented. CallerOf returns the calling node. Its methods must return when
	// their context ends, because Close waits for them.
	Calls      nodev1.NodeServer
	Heartbeats pulse.Heartbeats // nil: heartbeats only show that this node lives
	Clock      pulse.Clock      // nil: heartbeats have no readings of clocks
	// Absent is called for a Raft call to a group without a member on this node. If it returns
	// true, the call waits for the group to open, see AbsentTimeout; otherwise it is refused. It
	// must not block. nil: all such calls are refused.
	Absent func(id.GroupID) bool
	// Refuse returns why this node refuses a peer, whatever its credentials: the peer was given up,
	// or its store is not that of its node. nil: no peer is refused. It is called at each handshake
	// and call, and by Recheck, and must not block. The peer receives the error's text.
	Refuse func(Peer) error
	// Refused is called when a peer refuses this node by its own Refuse, with the reason; nil:
	// nothing is called. Handler.PeerUp reports later connections to that peer. It must not block.
	Refused func(by id.NodeID, why string)
	// Ended is called at each attempt to connect if nothing listens at a peer's address: the kernel
	// there refuses connections, so the peer's process has ended. nil: nothing is called. It must
	// not block.
	Ended func(id.NodeID)
	// Silent reports whether this node's member of a group does not take part in it yet, although
	// it is open: Raft calls for it are refused. nil: all members take part. It must not block.
	Silent func(id.GroupID) bool
	// Reads is the newest version of stored state that this build reads, and Finalised returns the
	// version that a peer must be able to read; 0 and nil mean 1. Finalised is called at each
	// handshake and must not block; call Mux.Recheck after it has risen.
	Reads     uint8
	Finalised func() uint8
	Logger    *slog.Logger // nil: slog.DiscardHandler

	MaxFrameBytes       int // bytes of one frame; 0: 64 MiB
	MaxStreamQueueBytes int // bytes waiting to be sent on one stream; 0: 64 MiB
	MaxRaftInFlight     int // AppendEntries in flight per group and peer; 0: 8
	MaxRaftBytes        int // bytes of entries in flight per group and peer; 0: 8 MiB
	MaxAppendBytes      int // bytes of entries in one AppendEntries, but at least one entry; 0: 4 MiB
	MaxInboundCalls     int // Raft calls of one group that wait for its member here; 0: 256
	MaxParkedCalls      int // Raft calls per peer that wait for its connection; 0: 65536
	MaxAbsentCalls      int // Raft calls that wait for groups to open here; 0: 65536
	MaxAbsentBytes      int // bytes of their entries; 0: 64 MiB

	DialTimeout time.Duration // connecting to an address and the handshake; 0: 2 s
	// FallbackAfter is how long a peer's address may take to accept a connection before the
	// next one is tried; the last one has all of DialTimeout. 0: 300 ms.
	FallbackAfter  time.Duration
	RetryMin       time.Duration // first wait before connecting again; 0: 50 ms
	RetryMax       time.Duration // longest wait before connecting again; 0: 500 ms
	RetryRefuse    time.Duration // wait after the peer refused this node; 0: 5 s
	HeartbeatEvery time.Duration // between two heartbeats of each pair of nodes; 0: 250 ms
	PingEvery      time.Duration // between pings on the connection of the streams; 0: 1 s
	PingTimeout    time.Duration // without heartbeats, or an answer to pings, the connection is dropped; 0: 1 s
	CallTimeout    time.Duration // a Raft call, from when it is sent; 0: 30 s
	ParkTimeout    time.Duration // AppendEntries and snapshots wait so long for a connection; 0: 10 min
	// DetourAfter is how long a peer may be silent, on a connection or while one is opened, before
	// this node tries a detour through another node; 0: 400 ms. DetourBack is the interval between
	// attempts to connect directly again; 0: 5 s.
	DetourAfter, DetourBack time.Duration
	// AbsentTimeout is how long calls wait for a group to open on this node; 0: 2 s.
	AbsentTimeout time.Duration
}

// Validate returns all faults of the Config at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("transport: "+format, args...))
	}
	if c.Node == "" {
		fault("Node is empty: set the node's id")
	}
	if c.Cluster == "" {
		fault("Cluster is empty: set the cluster's name, the same on all nodes")
	}
	if c.Handler == nil {
		fault("Handler is nil: set what takes queue traffic")
	}
	if c.TLS != nil {
		own, authorities := c.TLS()
		if err := certificate.Check(c.Cluster, c.Node, own, authorities); err != nil {
			fault("TLS: %w", err)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"MaxFrameBytes", c.MaxFrameBytes},
		{"MaxLinkQueueBytes", c.MaxStreamQueueBytes},
		{"MaxRaftInFlight", c.MaxRaftInFlight},
		{"MaxRaftBytes", c.MaxRaftBytes},
		{"MaxAppendBytes", c.MaxAppendBytes},
		{"MaxInboundCalls", c.MaxInboundCalls},
		{"MaxParkedCalls", c.MaxParkedCalls},
		{"MaxAbsentCalls", c.MaxAbsentCalls},
		{"MaxAbsentBytes", c.MaxAbsentBytes},
	} {
		if n.value < 0 {
			fault("%s is %d: set a positive number, or 0 for the default", n.name, n.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"DialTimeout", c.DialTimeout},
		{"FallbackAfter", c.FallbackAfter},
		{"RetryMin", c.RetryMin},
		{"RetryMax", c.RetryMax},
		{"RetryRefuse", c.RetryRefuse},
		{"HeartbeatEvery", c.HeartbeatEvery},
		{"PingEvery", c.PingEvery},
		{"PingTimeout", c.PingTimeout},
		{"CallTimeout", c.CallTimeout},
		{"ParkTimeout", c.ParkTimeout},
		{"DetourAfter", c.DetourAfter},
		{"DetourBack", c.DetourBack},
		{"AbsentTimeout", c.AbsentTimeout},
	} {
		if d.value < 0 {
			fault("%s is %v: set a positive duration, or 0 for the default", d.name, d.value)
		}
	}
	d := c.withDefaults()
	if d.RetryMin > d.RetryMax {
		fault("RetryMin is %v, which is longer than RetryMax %v", d.RetryMin, d.RetryMax)
	}
	if d.MaxAppendBytes > d.MaxFrameBytes {
		fault("MaxAppendBytes is %d, which is more than MaxFrameBytes %d: a call must fit in a frame", d.MaxAppendBytes, d.MaxFrameBytes)
	}
	return errors.Join(faults...)
}

// withDefaults is called after Validate, so no value is negative.
func (c Config) withDefaults() Config {
	orInt := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	orInt(&c.MaxFrameBytes, 64<<20)
	orInt(&c.MaxStreamQueueBytes, 64<<20)
	orInt(&c.MaxRaftInFlight, 8)
	orInt(&c.MaxRaftBytes, 8<<20)
	orInt(&c.MaxAppendBytes, min(4<<20, c.MaxFrameBytes))
	orInt(&c.MaxInboundCalls, 256)
	orInt(&c.MaxParkedCalls, 65536)
	orInt(&c.MaxAbsentCalls, 65536)
	orInt(&c.MaxAbsentBytes, 64<<20)
	orTime := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	orTime(&c.DialTimeout, 2*time.Second)
	orTime(&c.FallbackAfter, min(300*time.Millisecond, c.DialTimeout))
	orTime(&c.RetryMin, 50*time.Millisecond)
	orTime(&c.RetryMax, max(500*time.Millisecond, c.RetryMin))
	orTime(&c.RetryRefuse, 5*time.Second)
	orTime(&c.HeartbeatEvery, 250*time.Millisecond)
	orTime(&c.PingEvery, time.Second)
	orTime(&c.PingTimeout, time.Second)
	orTime(&c.CallTimeout, 30*time.Second)
	orTime(&c.ParkTimeout, 10*time.Minute)
	orTime(&c.DetourAfter, 400*time.Millisecond)
	orTime(&c.DetourBack, 5*time.Second)
	orTime(&c.AbsentTimeout, 2*time.Second)
	c.Reads = max(c.Reads, 1)
	if c.Finalised == nil {
		c.Finalised = func() uint8 { return 1 }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// acknowledgeWithin is how long the systems of two nodes may exchange nothing on a connection that has something to
// send, before it is dropped. While a network fails now and then, TCP waits twice as long before each attempt to send
// again, soon for seconds; a new connection sends at once. The bound does not depend on processors: the systems
// answer for processes that lack them.
func (c *Config) acknowledgeWithin() time.Duration { return c.PingTimeout + c.PingTimeout/2 }

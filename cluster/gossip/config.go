package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/quorate/quorate/internal/gate"
)

// Config describes this node. Zero values are the defaults.
type Config struct {
	Cluster   string
	Node      Node
	BindAddr  string // host:port for TCP and UDP; port 0: a free one
	Advertise string // host:port as others reach it; "": BindAddr
	// AdvertiseWait is how long Start waits until a name in Advertise resolves to an
	// address of this machine; 0: 15 s.
	AdvertiseWait time.Duration
	Waits         func()     // is called when that wait begins; nil: nothing is called
	Join          []string   // host:port or DNS names with port, which may have several addresses
	Key           []byte     // 16, 24 or 32 bytes; empty: gossip is not encrypted
	Gate          *gate.Gate // of connections for gossip; nil: one with its own bounds
	Logger        *slog.Logger
	JoinEvery     time.Duration // retry of Join while peers are missing; 0: 1 s
	ProbeEvery    time.Duration // of one other node in turn; 0: 2 s, twice memberlist's LAN default
}

// Validate returns all faults of the Config at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("gossip: "+format, args...))
	}
	if c.Cluster == "" || len(c.Cluster) > memberlist.LabelMaxSize {
		fault("Cluster has %d bytes: give it a name of 1 to %d bytes, the same on all nodes", len(c.Cluster), memberlist.LabelMaxSize)
	}
	if c.Node.ID == "" {
		fault("Node.ID is empty: set the node's id")
	}
	if n := len(encodeMeta(c.Node)); n > memberlist.MetaMaxSize {
		fault("the metadata of node %q in gossip takes %d bytes, the limit is %d: shorten its addresses %q, %q or its version %q",
			c.Node.ID, n, memberlist.MetaMaxSize, c.Node.PeerAddr, c.Node.ClientAddr, c.Node.Version)
	}
	if err := hostPort(c.BindAddr); err != nil {
		fault("BindAddr: %w", err)
	}
	if c.Advertise != "" {
		if err := hostPort(c.Advertise); err != nil {
			fault("Advertise: %w", err)
		}
	}
	for _, j := range c.Join {
		if err := hostPort(j); err != nil {
			fault("Join: %w", err)
		}
	}
	switch len(c.Key) {
	case 0, 16, 24, 32:
	default:
		fault("Key has %d bytes: use 16, 24 or 32, or none", len(c.Key))
	}
	if c.JoinEvery < 0 {
		fault("JoinEvery is %v: set a positive duration, or 0 for the default", c.JoinEvery)
	}
	if c.AdvertiseWait < 0 {
		fault("AdvertiseWait is %v: set a positive duration, or 0 for the default", c.AdvertiseWait)
	}
	if c.ProbeEvery < 0 {
		fault("ProbeEvery is %v: set a positive duration, or 0 for the default", c.ProbeEvery)
	}
	return errors.Join(faults...)
}

// withDefaults is called after Validate.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Gate == nil {
		c.Gate = NewGate(c.Logger)
	}
	if c.AdvertiseWait == 0 {
		c.AdvertiseWait = 15 * time.Second
	}
	if c.JoinEvery == 0 {
		c.JoinEvery = time.Second
	}
	if c.ProbeEvery == 0 {
		c.ProbeEvery = 2 * time.Second
	}
	return c
}

// hostPort refuses what memberlist would only find when it uses the address.
func hostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil && host == "" {
		err = errors.New("the host is missing")
	}
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not host:port: %w", address, err)
	}
	return nil
}

// resolveOne returns an address as memberlist wants it: an IP and a port.
func resolveOne(address string) (string, int, error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, err
	}
	if net.ParseIP(host) == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		found, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
		if err != nil {
			return "", 0, err
		}
		host = found[0].String()
	}
	return host, int(port), nil
}

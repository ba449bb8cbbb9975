package gossip

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// A name that is advertised counts only once it stands for an address of this machine.
func TestAdvertised(t *testing.T) {
	own := func() []net.IP {
		return []net.IP{net.ParseIP("::7"), net.ParseIP("10.0.0.7"), net.ParseIP("127.0.0.1")}
	}
	for _, c := range []struct {
		name, address, bind string
		answers             []string // of the lookup, one after the other; the last stays
		ip                  string
		port                int
		found               bool
		err                 string
	}{
		{name: "an IP is taken as it is", address: "192.0.2.1:7946", bind: "0.0.0.0", ip: "192.0.2.1", port: 7946, found: true},
		{name: "a name of this machine", address: "n1:7946", bind: "0.0.0.0", answers: []string{"10.0.0.7"}, ip: "10.0.0.7", port: 7946, found: true},
		{
			name: "not known at first, then the former address", address: "n1:1", bind: "0.0.0.0",
			answers: []string{"", "10.0.0.6", "10.0.0.6", "10.0.0.7"}, ip: "10.0.0.7", port: 1, found: true,
		},
		{
			name: "one of several", address: "n1:1", bind: "0.0.0.0", answers: []string{"10.0.0.6 10.0.0.7"},
			ip: "10.0.0.7", port: 1, found: true,
		},
		{name: "family of the address that is bound", address: "n1:1", bind: "0.0.0.0", answers: []string{"::7 10.0.0.7"}, ip: "10.0.0.7", port: 1, found: true},
		{name: "IPv6", address: "n1:1", bind: "::", answers: []string{"10.0.0.7 ::7"}, ip: "::7", port: 1, found: true},
		{name: "a router in front", address: "n1:1", bind: "0.0.0.0", answers: []string{"192.0.2.1"}, ip: "192.0.2.1", port: 1},
		{name: "never known", address: "n1:1", bind: "0.0.0.0", answers: []string{""}},
		{name: "no port", address: "n1", bind: "0.0.0.0", err: "missing port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			lookup := func(context.Context, string) ([]net.IP, error) {
				answer := c.answers[min(asked, len(c.answers)-1)]
				asked++
				if answer == "" {
					return nil, errors.New("no such host")
				}
				var all []net.IP
				for _, ip := range strings.Fields(answer) {
					all = append(all, net.ParseIP(ip))
				}
				return all, nil
			}
			wait := 20 * time.Millisecond
			if c.found {
				wait = 10 * time.Second
			}
			missed := 0
			ip, port, found, err := advertised(c.address, c.bind, wait, lookup, own, func([]net.IP, error) { missed++ })
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || ip != c.ip || port != c.port || found != c.found {
				t.Errorf("%s port %d found %v, %v; want %s port %d found %v", ip, port, found, err, c.ip, c.port, c.found)
			}
			if vain := asked - 1; c.found && asked > 0 && missed != vain {
				t.Errorf("%d looks in vain were told, want %d", missed, vain)
			}
		})
	}
}

// A name is good enough for a node on this machine, and one that is not known does not
// keep it from starting.
func TestAdvertiseName(t *testing.T) {
	local := config("n1", 1)
	local.BindAddr = freeAddress(t)
	local.Advertise = strings.Replace(local.BindAddr, "127.0.0.1", "localhost", 1)
	if got := start(t, local).GossipAddr(); got != local.BindAddr {
		t.Errorf("others are told %s, want %s", got, local.BindAddr)
	}
	unknown := config("n2", 1)
	unknown.Advertise, unknown.AdvertiseWait = "no-such-node.invalid:7946", 20*time.Millisecond
	waited := 0
	unknown.Waits = func() { waited++ }
	n := start(t, unknown)
	if !strings.HasPrefix(n.GossipAddr(), "127.0.0.1:") {
		t.Errorf("others are told %s", n.GossipAddr())
	}
	if n.logged.count("waiting for the advertised name") != 1 || waited != 1 {
		t.Errorf("that it waits was logged %d times, told %d times", n.logged.count("waiting for the advertised name"), waited)
	}
	if n.logged.count("does not resolve to an address of this machine") != 1 {
		t.Error("it was not said")
	}
	other := start(t, config("n3", 1, n.GossipAddr()))
	meet(t, n, other)
}

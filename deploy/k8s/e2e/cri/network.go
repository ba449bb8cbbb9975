//go:build linux

package cri

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// network gives pods addresses and links them with the host, which routes between them: a pair of
// interfaces for each pod, with routes to its one address.
type network struct {
	host netip.Addr   // of the node, the pods' gateway
	pods netip.Prefix // addresses of this node's pods

	mu   sync.Mutex
	next netip.Addr
	used map[netip.Addr]bool
}

func newNetwork(host netip.Addr, pods netip.Prefix) *network {
	return &network{host: host, pods: pods, next: pods.Masked().Addr().Next(), used: map[netip.Addr]bool{}}
}

// take returns an address that no pod has and that was free for the longest time: pods that are
// started again come back with another one.
func (n *network) take() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for first := n.next; ; {
		a := n.next
		if n.next = n.next.Next(); !n.pods.Contains(n.next) {
			n.next = n.pods.Masked().Addr().Next()
		}
		if !n.used[a] {
			n.used[a] = true
			return a, nil
		}
		if n.next == first {
			return a, fmt.Errorf("all addresses of %v are in use: give the node more", n.pods)
		}
	}
}

func (n *network) release(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.used, a)
}

// link connects a pod's namespace with the host under the name card, which is unique on the machine.
func (n *network) link(ns namespaces, card string, pod netip.Addr) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: card, MTU: 1500}, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns.net.Fd())}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make interface %s: %w", card, err)
	}
	outside, err := netlink.LinkByName(card)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", card, err)
	}
	err = errors.Join(
		netlink.AddrAdd(outside, &netlink.Addr{IPNet: single(n.host), Scope: int(netlink.SCOPE_LINK)}),
		netlink.LinkSetUp(outside),
		netlink.RouteAdd(&netlink.Route{LinkIndex: outside.Attrs().Index, Dst: single(pod), Src: n.host.AsSlice(), Scope: netlink.SCOPE_LINK}),
	)
	if err != nil {
		return fmt.Errorf("set up interface %s: %w", card, err)
	}
	err = onThread(func() error {
		if err := ns.enter(); err != nil {
			return err
		}
		return n.inside(pod)
	})
	if err != nil {
		return fmt.Errorf("set up the pod's interface at %v: %w", pod, err)
	}
	return nil
}

// inside sets the pod's own interfaces up, on a thread in its namespace.
func (n *network) inside(pod netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	eth, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	index := eth.Attrs().Index
	return errors.Join(
		netlink.LinkSetUp(lo),
		netlink.AddrAdd(eth, &netlink.Addr{IPNet: single(pod)}),
		netlink.LinkSetUp(eth),
		netlink.RouteAdd(&netlink.Route{LinkIndex: index, Dst: single(n.host), Scope: netlink.SCOPE_LINK}),
		netlink.RouteAdd(&netlink.Route{LinkIndex: index, Gw: n.host.AsSlice()}),
	)
}

// unlink takes the pod's network away; it is no error if it is gone.
func (n *network) unlink(card string) error {
	link, err := netlink.LinkByName(card)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove interface %s: %w", card, err)
	}
	return nil
}

func single(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

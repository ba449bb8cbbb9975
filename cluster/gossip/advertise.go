package gossip

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"
)

// advertised returns the IP and port that other nodes learn, or an empty IP to leave the
// choice to memberlist. Gossip carries IPs, so a name is looked up here, once per life of
// the process; therefore it must not be an answer from before this process had its
// address. On Kubernetes the name of a pod that comes back resolves to nothing at first,
// or to its former address. So a name is asked until one of this machine's own addresses
// comes up, for wait at most. Then the answer is used as it is, because it may be the address of a router in front.
// missed is called for each failed attempt.
func advertised(address, bind string, wait time.Duration, lookup func(context.Context, string) ([]net.IP, error),
	own func() []net.IP, missed func(found []net.IP, err error),
) (ip string, port int, found bool, err error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, false, err
	}
	number, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, false, err
	}
	if net.ParseIP(host) != nil {
		return host, int(number), true, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	retry := time.NewTicker(max(wait/50, time.Millisecond))
	defer retry.Stop()
	var last net.IP
	for {
		all, err := lookup(ctx, host)
		if err == nil {
			all = sameFamily(all, bind)
		}
		if len(all) > 0 {
			last = all[0]
		}
		for _, mine := range own() {
			if slices.ContainsFunc(all, mine.Equal) {
				return mine.String(), int(number), true, nil
			}
		}
		missed(all, err)
		select {
		case <-retry.C:
		case <-ctx.Done():
			if last == nil {
				return "", 0, false, nil
			}
			return last.String(), int(number), false, nil
		}
	}
}

// sameFamily leaves out what cannot be reached through the address that is bound:
// memberlist listens on one, IPv4 or IPv6.
func sameFamily(all []net.IP, bind string) []net.IP {
	v4 := net.ParseIP(bind).To4() != nil
	return slices.DeleteFunc(slices.Clone(all), func(ip net.IP) bool { return (ip.To4() != nil) != v4 })
}

// ownAddresses returns this machine's addresses; the one that is bound is first.
func ownAddresses(bind string) func() []net.IP {
	return func() []net.IP {
		var all []net.IP
		if ip := net.ParseIP(bind); ip != nil && !ip.IsUnspecified() {
			all = append(all, ip)
		}
		found, err := net.InterfaceAddrs()
		if err != nil {
			return all
		}
		for _, a := range found {
			if n, is := a.(*net.IPNet); is {
				all = append(all, n.IP)
			}
		}
		return all
	}
}

func lookupIP(ctx context.Context, host string) ([]net.IP, error) {
	return net.DefaultResolver.LookupIP(ctx, "ip", host)
}

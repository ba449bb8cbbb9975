package broker

import (
	"context"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
)

// sight is what a caller sees of a vhost, or of all (VH-12). A caller with a tag sees the whole
// vhost, anybody else the queues and exchanges that one of its patterns matches.
type sight struct {
	of    *permissions
	vhost string // "": all
	grant *grant // nil: everything
}

// sight returns what the context's caller sees in a vhost, "" for all of them. Errors:
// AccessRefused for who has neither the tag monitoring nor a permission in the vhost.
func (ps *permissions) sight(ctx context.Context, vhost string) (sight, error) {
	s := sight{of: ps, vhost: vhost}
	refused := ps.logins.Require(ctx, identity.TagMonitoring)
	if refused == nil {
		return s, nil
	}
	who, err := ps.logins.Who(ctx)
	if err != nil || vhost == "" {
		return s, refused
	}
	v := ps.view()
	g := ps.grantIn(v, who, vhost)
	if g == nil {
		return s, refused
	}
	if !who.Is(identity.TagManagement) {
		s.grant = g
	}
	return s, nil
}

// wholeSight is sight for what has no name that a pattern could match.
func (ps *permissions) wholeSight(ctx context.Context, vhost string) error {
	s, err := ps.sight(ctx, vhost)
	if err != nil || s.whole() {
		return err
	}
	return ps.logins.Require(ctx, identity.TagManagement)
}

// whole tells that everything in the vhost is seen.
func (s sight) whole() bool { return s.grant == nil }

// sees tells whether a queue or exchange is seen.
func (s sight) sees(t thing) bool {
	if s.vhost != "" && t.vhost != s.vhost || t.kind == "queue" && s.of.hidden(t.name) {
		return false
	}
	for r := configure; !s.whole() && r <= read; r++ {
		if s.of.matches(s.grant, r, t.matched()) {
			return true
		}
	}
	return s.whole()
}

// seesBinding tells whether both ends of a binding are seen.
func (s sight) seesBinding(x *catalog.Binding) bool {
	to := queueOf(x.VHost, x.Destination)
	if x.DestinationKind == catalog.ToExchange {
		to.kind = "exchange"
	}
	return s.sees(exchangeOf(x.VHost, x.Source)) && s.sees(to)
}

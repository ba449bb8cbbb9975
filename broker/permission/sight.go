package permission

import (
	"context"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
)

// Sight is what a caller may see of a vhost, or of all vhosts (VH-12). A caller with a tag sees the
// whole vhost. Any other caller sees the queues and exchanges that one of its patterns matches.
type Sight struct {
	VHost string // "": all
	grant *Grant // nil: everything
}

// Sight returns what the context's caller may see in a vhost, or in all vhosts for "". Errors:
// AccessRefused for a caller with neither the tag monitoring nor a permission in the vhost.
func (ps *Permissions) Sight(ctx context.Context, vhost string) (Sight, error) {
	s := Sight{VHost: vhost}
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

// WholeSight checks that the caller may see things in a vhost that have no name for a pattern to
// match.
func (ps *Permissions) WholeSight(ctx context.Context, vhost string) error {
	s, err := ps.Sight(ctx, vhost)
	if err != nil || s.Whole() {
		return err
	}
	return ps.logins.Require(ctx, identity.TagManagement)
}

// PermitSight refuses callers who may neither see the whole vhost of a queue or exchange nor have a right for it
// (VH-12).
func (ps *Permissions) PermitSight(ctx context.Context, t Thing) error {
	if ps.WholeSight(ctx, t.VHost) == nil {
		return nil
	}
	return ps.PermitAny(ctx, t)
}

// Whole reports that the caller sees everything in the vhost.
func (s Sight) Whole() bool { return s.grant == nil }

// Sees reports whether the caller may see a queue or exchange.
func (s Sight) Sees(t Thing) bool {
	if s.VHost != "" && t.VHost != s.VHost || t.Kind == "queue" && names.IsReply(t.Name) {
		return false
	}
	for r := Configure; !s.Whole() && r <= Read; r++ {
		if s.grant.Matches(r, t.matched()) {
			return true
		}
	}
	return s.Whole()
}

// SeesBinding reports whether the caller may see both ends of a binding.
func (s Sight) SeesBinding(x *catalog.Binding) bool {
	to := Queue(x.VHost, x.Destination)
	if x.DestinationKind == catalog.ToExchange {
		to.Kind = "exchange"
	}
	return s.Sees(Exchange(x.VHost, x.Source)) && s.Sees(to)
}

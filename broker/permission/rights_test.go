package permission

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
)

// Callers who need no login may do everything in a vhost that exists. For one that does not they get the same answer as
// users who have logged in.
func TestRightsWithoutLogins(t *testing.T) {
	view := catalog.New().View
	log := slog.New(slog.DiscardHandler)
	for name, ctx := range map[string]context.Context{
		"no logins": t.Context(), "the node itself": identity.WithIdentity(t.Context(), identity.Itself()),
	} {
		ps := New(Config{View: view, Logins: identity.New(identity.Config{View: view, Log: log}), Log: log})
		for _, things := range [][2]Thing{{Queue("/", "q"), Queue("nix", "q")}, {Exchange("/", ""), Exchange("nix", "")}} {
			if r, err := ps.RightsTo(ctx, things[0]); err != nil || r != everything() {
				t.Errorf("%s: %+v, %v to %v", name, r, err, things[0])
			}
			r, err := ps.RightsTo(ctx, things[1])
			if e, is := errors.AsType[*failure.Error](err); !is || e.Class != failure.NotFound || e.Name != "nix" || r != (Rights{}) {
				t.Errorf("%s: %+v, %v to %v", name, r, err, things[1])
			}
		}
	}
}

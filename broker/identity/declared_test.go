package identity

import (
	"context"
	"testing"

	"github.com/quorate/quorate/catalog"
)

// VH-17: queues get no declarer before the version with declarers is finalised. The node itself
// declares for nobody.
func TestDeclaredBy(t *testing.T) {
	c := catalog.New()
	apply := func(cmd catalog.Command) {
		t.Helper()
		if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	is := func(l *Logins, ctx context.Context, want string) {
		t.Helper()
		if by, err := l.DeclaredBy(ctx); by != want || err != nil {
			t.Errorf("%q, %v; want %q", by, err, want)
		}
	}
	apply(&catalog.RegisterNode{ID: "n", Epoch: 1})
	apply(&catalog.PutUser{User: catalog.User{Name: "u", UserLimits: catalog.NoUserLimits()}})
	u, _ := c.View().User("u")
	ctx := WithIdentity(t.Context(), Of(u))
	l := testLogins(c.View, Config{Authenticate: true})
	apply(&catalog.RaiseVersion{Version: catalog.VersionDeclarers - 1})
	is(l, ctx, "")
	apply(&catalog.RaiseVersion{Version: catalog.VersionDeclarers})
	is(l, ctx, "u")
	is(l, WithIdentity(t.Context(), Itself()), "")
	if by, err := l.DeclaredBy(t.Context()); err == nil {
		t.Errorf("somebody who has not logged in is %q", by)
	}
	is(testLogins(c.View, Config{}), t.Context(), "")
}

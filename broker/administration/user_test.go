package administration

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/testnode"
)

// VH-10: older builds that apply the commands may not check this. So the node that is asked checks
// that an administrator is left.
func TestLastAdministratorOfOldVersion(t *testing.T) {
	c := catalog.New()
	for i, name := range []string{"a", "b"} {
		u := catalog.User{Name: name, PasswordHash: "h", Tags: []string{identity.TagAdministrator}[:1-i], UserLimits: NoUserLimits()}
		if r := c.Apply(c.View().Index()+1, 1, &catalog.PutUser{User: u}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	none := NoUserLimits()
	none.MaxConnections = 0
	part := testnode.Start(t)
	if err := part.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := New(Config{View: c.View, Commands: audit.NewCommands(part.Catalog(), part.View)})
	ctx := t.Context()
	for name, call := range map[string]func(user string) error{
		"delete": func(user string) error { _, err := b.DeleteUser(ctx, user); return err },
		"limits": func(user string) error { return b.SetUserLimits(ctx, user, none) },
		"put":    func(user string) error { _, err := b.PutUser(ctx, PutUser{Name: user}); return err },
		"change": func(user string) error {
			_, err := b.ChangeUser(ctx, UserChange{Name: user, NoPassword: true})
			return err
		},
	} {
		for user, class := range map[string]failure.Class{"a": failure.PreconditionFailed, "b": failure.Unavailable} { // the cluster cannot be asked
			var e *failure.Error
			if err := call(user); !errors.As(err, &e) || e.Class != class || e.State != (user == "a") {
				t.Errorf("%s of %s: %v, want %s", name, user, err, class)
			}
		}
	}
}

package topology

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/spec"
)

// The operator leaves the user as whom it logs in alone, and its permissions: they are not set, and stay when their objects
// go. While it is not known who that is, nothing is changed at all.
func TestOwnUserAndPermission(t *testing.T) {
	asked, unknown := 0, errors.New("nobody knows")
	var self error
	s := &session{
		own: func(context.Context) (string, error) { return "operator", self },
		dial: func(context.Context) (*client.Client, error) {
			asked++
			return nil, errors.New("the broker is asked")
		},
	}
	s.inventory = inventory.New(s.dial)
	for what, c := range map[string]struct{ own, other subject }{
		"user":       {user{spec.User{Name: "operator"}}, nil},
		"permission": {permission{spec.Permission{VHost: "/", User: "operator"}}, permission{spec.Permission{VHost: "/", User: "app"}}},
	} {
		asked, self = 0, nil
		_, err := c.own.apply(t.Context(), s)
		if _, refused := errors.AsType[*refusal](err); !refused || !strings.Contains(err.Error(), `the operator itself logs in as user "operator"`) {
			t.Errorf("%s: apply: %v", what, err)
		}
		if err := c.own.remove(t.Context(), s, always); err != nil {
			t.Errorf("%s: remove: %v: the object never goes", what, err)
		}
		if self = unknown; !errors.Is(c.own.remove(t.Context(), s, always), unknown) {
			t.Errorf("%s: it is removed though it may be the operator's", what)
		}
		if _, err := c.own.apply(t.Context(), s); !errors.Is(err, unknown) {
			t.Errorf("%s: it is set though it may be the operator's: %v", what, err)
		}
		if asked > 0 {
			t.Errorf("%s: the broker is asked for a change of the operator's own", what)
		}
		if self = nil; c.other != nil {
			if err := c.other.remove(t.Context(), s, always); err == nil || asked == 0 {
				t.Errorf("%s: that of another user stays, too: %v", what, err)
			}
		}
	}
}

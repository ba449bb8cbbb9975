package administration

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/password"
)

// The user of a fresh cluster unless the configuration names another (VH-1). As its
// password is known to all, it may log in from the nodes' own hosts alone.
const (
	DefaultUser     = "guest"
	DefaultPassword = "guest"
)

// barrierName is that of the barrier in front of the decision.
const barrierName = "founding"

// foundRetry is the time between two tries to make the default user.
const foundRetry = 100 * time.Millisecond

// Found makes the default user of a fresh cluster, once for all times: all nodes try, what
// exists is not changed, and a user that was deleted later stays so (VH-1).
func (ad *Administration) Found(ctx context.Context) {
	tick := time.NewTicker(foundRetry)
	defer tick.Stop()
	logged := false
	for !serving.Founded(ad.view()) {
		if err := ad.tryFound(ctx); err != nil && ctx.Err() == nil && !logged {
			logged = true
			ad.log.Info("the default user cannot be made yet", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tryFound makes the default user unless the cluster was founded before. Two nodes that do it at once make one user:
// what they propose is for new things only.
func (ad *Administration) tryFound(ctx context.Context) error {
	mark := func(name string) error {
		_, err := ad.commands.Propose(ctx, failure.Error{Kind: "parameter", Name: name}, &catalog.PutParameter{Parameter: catalog.Parameter{
			Component: serving.FoundingComponent, Name: name, Value: "1",
		}}, nil)
		return err
	}
	// The view is as new as the log from here on.
	if err := mark(barrierName); err != nil {
		return err
	}
	v := ad.view()
	if serving.Founded(v) {
		return nil
	}
	_, known := v.User(ad.cfg.DefaultUser)
	if empty := !hasUsers(v); empty || known {
		if err := ad.makeDefaultUser(ctx, known); err != nil {
			return err
		}
	}
	return mark(serving.FoundedName)
}

// hasUsers reports whether the cluster has a user: then an operator, or an import, has made it.
func hasUsers(v *catalog.View) bool {
	for range v.Users() {
		return true
	}
	return false
}

// makeDefaultUser makes the user, unless known, and its permission: a node may have died between the two.
func (ad *Administration) makeDefaultUser(ctx context.Context, known bool) error {
	name := ad.cfg.DefaultUser
	if !known {
		hash, a, err := password.Hash(ad.cfg.DefaultPassword)
		if err != nil {
			return err
		}
		err = ad.audit.ByItself(ctx, audit.Act{Operation: audit.OpUserPut, Kind: "user", Name: name}, func(ctx context.Context) error {
			_, err := ad.commands.Propose(ctx, AboutUser(name), &catalog.PutUser{OnlyNew: true, User: catalog.User{
				Name: name, PasswordHash: hash, Algorithm: string(a), Tags: []string{identity.TagAdministrator},
				UserLimits: catalog.NoUserLimits(),
			}}, nil)
			return err
		})
		if !Existed(err) {
			return err
		}
	}
	x := audit.Act{Operation: audit.OpPermissionSet, VHost: catalog.DefaultVHost, Kind: "permission", Name: name}
	err := ad.audit.ByItself(ctx, x, func(ctx context.Context) error {
		_, err := ad.commands.Propose(ctx, AboutPermission(catalog.DefaultVHost, name), &catalog.SetPermission{OnlyNew: true, Permission: Permission{
			User: name, VHost: catalog.DefaultVHost, Configure: ".*", Write: ".*", Read: ".*",
		}}, nil)
		return err
	})
	if !Existed(err) {
		return err
	}
	return nil
}

// Existed reports that nothing went wrong, or only that another node was faster.
func Existed(err error) bool {
	var e *failure.Error
	return err == nil || errors.As(err, &e) && e.Class == failure.PreconditionFailed
}

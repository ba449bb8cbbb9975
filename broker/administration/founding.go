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

// The user of a new cluster, unless the configuration names another one (VH-1). Everybody knows the password, so this
// user may log in only from the nodes' own hosts.
const (
	DefaultUser     = "guest"
	DefaultPassword = "guest"
)

// barrierName is the parameter that a node sets before it decides whether to create the default user: afterwards its
// view is new enough.
const barrierName = "founding"

// foundRetry is the interval at which a node tries to create the default user.
const foundRetry = 100 * time.Millisecond

// Found creates the default user of a new cluster. All nodes try, but the user is created only once: what exists is not
// changed, and a user that was deleted later stays deleted (VH-1). The user guest is not created if the cluster has users,
// or if usersWait is set, because it will get some. Found returns when the user is created or ctx has ended.
func (ad *Administration) Found(ctx context.Context, usersWait bool) {
	tick := time.NewTicker(foundRetry)
	defer tick.Stop()
	logged := false
	for !serving.Founded(ad.view()) {
		if err := ad.tryFound(ctx, usersWait); err != nil && ctx.Err() == nil && !logged {
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

// tryFound creates the default user unless the cluster was founded before. Two nodes may do it at the same time: their
// commands apply only to new objects, so there is one user.
func (ad *Administration) tryFound(ctx context.Context, usersWait bool) error {
	mark := func(name string) error {
		_, err := ad.commands.Propose(ctx, failure.Error{Kind: "parameter", Name: name}, &catalog.PutParameter{Parameter: catalog.Parameter{
			Component: serving.FoundingComponent, Name: name, Value: "1",
		}}, nil)
		return err
	}
	// From here on the view is as new as the log was when this node asked.
	if err := mark(barrierName); err != nil {
		return err
	}
	v := ad.view()
	if serving.Founded(v) {
		return nil
	}
	_, known := v.User(ad.cfg.DefaultUser)
	named := ad.cfg.DefaultUser != DefaultUser
	if named || known || !hasUsers(v) && !usersWait {
		if err := ad.makeDefaultUser(ctx, known); err != nil {
			return err
		}
	}
	return mark(serving.FoundedName)
}

// hasUsers reports whether the cluster has a user. If it has, an operator or an import has created that user.
func hasUsers(v *catalog.View) bool {
	for range v.Users() {
		return true
	}
	return false
}

// makeDefaultUser creates the user, unless it is known, and its permission. The permission may be missing although the
// user is known, because a node can die between the two.
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

// Existed reports that an operation succeeded, or failed only because another node had done it.
func Existed(err error) bool {
	var e *failure.Error
	return err == nil || errors.As(err, &e) && e.Class == failure.PreconditionFailed
}

package administration

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
)

// upgradeTimeout bounds the time of putting a better hash in the place of a weak one.
const upgradeTimeout = 10 * time.Second

// UpgradeHashes stores better hashes, one after the other: those of other brokers are quick to
// guess. A user that was changed meanwhile stays as it is. What fails is left to the next login
// that is not known already, at the latest after the node's next start.
func (ad *Administration) UpgradeHashes(ctx context.Context) {
	for {
		select {
		case u := <-ad.logins.Upgrades():
			if err := ad.storeUpgrade(ctx, &u); err != nil && ctx.Err() == nil {
				ad.log.Warn("a password keeps its weak hash for now", "user", u.User.Name, "algorithm", u.User.Algorithm, "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// storeUpgrade stores one better hash. The catalog compares the old one, so that a password that was changed meanwhile
// is not undone.
func (ad *Administration) storeUpgrade(ctx context.Context, u *identity.Upgrade) error {
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	name := u.User.Name
	cmd := &catalog.ChangeUser{Name: name, SetPassword: true, PasswordHash: u.Hash, Algorithm: u.Algorithm, Was: u.User.PasswordHash}
	if ad.view().Allows(cmd) != nil {
		return nil // builds take part that know no such change
	}
	err := ad.audit.ByItself(ctx, audit.Act{Operation: audit.OpUserChange, Kind: "user", Name: name}, func(ctx context.Context) error {
		_, err := ad.commands.Propose(ctx, AboutUser(name), cmd, nil)
		return err
	})
	switch now, ok := ad.view().User(name); {
	case ok && now.PasswordHash == u.Hash: // by this node, or by another one that was faster
		ad.logins.Remember(u.Credential, now)
		ad.log.Info("a password has a better hash", "user", name, "was", u.User.Algorithm, "algorithm", u.Algorithm)
		return nil
	}
	if e, refused := errors.AsType[*failure.Error](err); refused && (e.Class == failure.PreconditionFailed || e.Class == failure.NotFound) {
		return nil // the user was changed meanwhile
	}
	return err
}

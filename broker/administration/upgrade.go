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

// upgradeTimeout limits how long it may take to store one better hash.
const upgradeTimeout = 10 * time.Second

// UpgradeHashes stores better hashes in place of weak ones, such as those of other brokers, whose passwords are quick
// to guess. It stores one after the other. A user that was changed meanwhile keeps the new state. If a hash cannot be
// stored, a later login tries again: the next one whose credentials this node does not remember, at the latest after
// the node's next start.
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

// storeUpgrade stores one better hash. The command has the old hash for the catalog to compare, so that a password that
// was changed meanwhile is not undone.
func (ad *Administration) storeUpgrade(ctx context.Context, u *identity.Upgrade) error {
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	name := u.User.Name
	cmd := &catalog.ChangeUser{Name: name, SetPassword: true, PasswordHash: u.Hash, Algorithm: u.Algorithm, Was: u.User.PasswordHash}
	if ad.view().Allows(cmd) != nil {
		return nil // the cluster has builds that do not know this command
	}
	err := ad.audit.ByItself(ctx, audit.Act{Operation: audit.OpUserChange, Kind: "user", Name: name}, func(ctx context.Context) error {
		_, err := ad.commands.Propose(ctx, AboutUser(name), cmd, nil)
		return err
	})
	switch now, ok := ad.view().User(name); {
	case ok && now.PasswordHash == u.Hash: // stored by this node, or by another one that was faster
		ad.logins.Remember(u.Credential, now)
		ad.log.Info("a password has a better hash", "user", name, "was", u.User.Algorithm, "algorithm", u.Algorithm)
		return nil
	}
	if e, refused := errors.AsType[*failure.Error](err); refused && (e.Class == failure.PreconditionFailed || e.Class == failure.NotFound) {
		return nil // the user was changed meanwhile
	}
	return err
}

package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// Bounds of putting better hashes in the place of weak ones.
const (
	// maxUpgrades bounds the hashes that wait for it; what is above waits for a later login.
	maxUpgrades = 128
	// upgradeTimeout bounds one of them.
	upgradeTimeout = 10 * time.Second
)

// upgrade is a better hash of the password by which a user has logged in.
type upgrade struct {
	user            *catalog.User
	credential      [sha256.Size]byte
	hash, algorithm string
}

// upgrade leaves a better hash to upgradeHashes, unless it has too many. A login does not wait.
func (l *logins) upgrade(u upgrade) {
	select {
	case l.upgrades <- u:
	default:
	}
}

// upgradeHashes stores better hashes, one after the other: those of other brokers are quick to
// guess. A user that was changed meanwhile stays as it is. What fails is left to the next login
// that is not known already, at the latest after the node's next start.
func (ad *admin) upgradeHashes(ctx context.Context) {
	for {
		select {
		case u := <-ad.logins.upgrades:
			if err := ad.storeUpgrade(ctx, &u); err != nil && ctx.Err() == nil {
				ad.log.Warn("a password keeps its weak hash for now", "user", u.user.Name, "algorithm", u.user.Algorithm, "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (ad *admin) storeUpgrade(ctx context.Context, u *upgrade) error {
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	name := u.user.Name
	cmd := &catalog.ChangeUser{Name: name, SetPassword: true, PasswordHash: u.hash, Algorithm: u.algorithm, Was: u.user.PasswordHash}
	if ad.view().Allows(cmd) != nil {
		return nil // builds take part that know no such change
	}
	err := ad.audit.ByItself(ctx, audit.Act{Operation: audit.OpUserChange, Kind: "user", Name: name}, func(ctx context.Context) error {
		_, err := ad.commands.Propose(ctx, aboutUser(name), cmd, nil)
		return err
	})
	switch now, ok := ad.view().User(name); {
	case ok && now.PasswordHash == u.hash: // by this node, or by another one that was faster
		ad.logins.remember(u.credential, now)
		ad.log.Info("a password has a better hash", "user", name, "was", u.user.Algorithm, "algorithm", u.algorithm)
		return nil
	}
	if e, refused := errors.AsType[*failure.Error](err); refused && (e.Class == failure.PreconditionFailed || e.Class == failure.NotFound) {
		return nil // somebody has changed the user
	}
	return err
}

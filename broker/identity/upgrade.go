package identity

import (
	"crypto/sha256"

	"github.com/quorate/quorate/catalog"
)

// maxUpgrades bounds the hashes that wait to be put in the place of weak ones; what is above waits for a later login.
const maxUpgrades = 128

// Upgrade is a better hash of the password by which a user has logged in.
type Upgrade struct {
	User            *catalog.User
	Credential      [sha256.Size]byte
	Hash, Algorithm string
}

// upgrade puts a better hash into Upgrades, unless too many wait there. A login does not wait.
func (l *Logins) upgrade(u Upgrade) {
	select {
	case l.upgrades <- u:
	default:
	}
}

// Upgrades are hashes that are to be stored.
func (l *Logins) Upgrades() <-chan Upgrade { return l.upgrades }

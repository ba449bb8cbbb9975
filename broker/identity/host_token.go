package identity

import (
	"crypto/rand"
	"crypto/subtle"

	"github.com/quorate/quorate/broker/audit"
)

// tokenPrefix begins every token, so that one that has leaked can be found.
const tokenPrefix = "quorate_"

// hostTokenPrefix begins the token of a node's host, so that one that has leaked can be found.
const hostTokenPrefix = tokenPrefix + "host_"

// hostUserPrefix begins the name of a login by the host token; a user's name has no colon.
const hostUserPrefix = "host:"

// NewHostToken returns a random token for Config.HostToken.
func NewHostToken() string { return hostTokenPrefix + rand.Text() + rand.Text() }

// loginHost returns the identity that the token of this node's host stands for: an administrator without
// permissions, under a name that no user can have (VH-11). nil: it is another token, or comes
// from elsewhere.
func (l *Logins) loginHost(text string, loopback bool) *Identity {
	if l.cfg.HostToken == "" || !loopback || subtle.ConstantTimeCompare([]byte(text), []byte(l.cfg.HostToken)) != 1 {
		return nil
	}
	name := hostUserPrefix + string(l.cfg.Node)
	l.log.Warn("somebody has logged in by the token of this node's host", "user", name)
	who := externalIdentity(name, TagAdministrator)
	who.mechanism = audit.MechanismHost
	return who
}

package identity

import (
	"crypto/rand"
	"crypto/subtle"

	"github.com/quorate/quorate/broker/audit"
)

// tokenPrefix begins every token, so that searches find tokens that have leaked.
const tokenPrefix = "quorate_"

// hostTokenPrefix begins the token of a node's host.
const hostTokenPrefix = tokenPrefix + "host_"

// hostUserPrefix begins the name of a login by the host token. The colon keeps it apart from users, whose names have
// none.
const hostUserPrefix = "host:"

// NewHostToken returns a random token for Config.HostToken.
func NewHostToken() string { return hostTokenPrefix + rand.Text() + rand.Text() }

// loginHost returns the identity for the token of this node's host: an administrator without permissions, under a name
// that no user can have (VH-11). It returns nil for any other token, and for a call from another host.
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

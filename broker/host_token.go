package broker

import (
	"crypto/rand"
	"crypto/subtle"
	"strings"

	"github.com/quorate/quorate/catalog"
)

// hostTokenPrefix begins the token of a node's host, so that one that has leaked can be found.
const hostTokenPrefix = tokenPrefix + "host_"

// hostUserPrefix begins the name of who logs in by it; a user's has no colon.
const hostUserPrefix = "host:"

// NewHostToken returns a token for Config.HostToken that nobody can guess.
func NewHostToken() string { return hostTokenPrefix + rand.Text() + rand.Text() }

// loginHost returns whom the token of this node's host stands for: an administrator without
// permissions, under a name that no user can have (VH-11). nil: it is another token, or comes
// from elsewhere.
func (b *Broker) loginHost(text string, loopback bool) *Identity {
	if b.cfg.HostToken == "" || !loopback || subtle.ConstantTimeCompare([]byte(text), []byte(b.cfg.HostToken)) != 1 {
		return nil
	}
	name := hostUserPrefix
	if c := b.cluster.Load(); c != nil {
		node, _ := c.Self()
		name += string(node)
	}
	b.log.Warn("somebody has logged in by the token of this node's host", "user", name)
	return &Identity{byToken: true, mechanism: mechanismHost, user: &catalog.User{
		Name: name, Tags: []string{TagAdministrator}, UserLimits: UserLimits{MaxConnections: Unlimited, MaxChannels: Unlimited},
	}}
}

// ofHost tells that no user of the catalog stands behind the login.
func (i *Identity) ofHost() bool { return strings.HasPrefix(i.User(), hostUserPrefix) }

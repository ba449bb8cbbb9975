// Package administration creates, changes and lists users, permissions, vhosts and policies. It also creates the first
// user of a cluster, and replaces weak hashes of passwords by better ones. An Administration may be used concurrently;
// errors are those of package failure.
package administration

import (
	"log/slog"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/policy"
)

// Config has the settings and parts of an Administration.
type Config struct {
	// DefaultUser and DefaultPassword are those of the user that a new cluster starts with (VH-1).
	DefaultUser, DefaultPassword string

	View        func() *catalog.View
	Policies    *policy.Matcher
	Serving     *serving.Node
	Commands    *audit.Commands
	Logins      *identity.Logins
	Permissions *permission.Permissions
	Audit       *audit.Log
	Log         *slog.Logger
}

// Administration creates, changes and lists users, permissions, vhosts and policies. All methods may be called
// concurrently.
type Administration struct {
	cfg         Config
	view        func() *catalog.View
	policies    *policy.Matcher
	serving     *serving.Node
	commands    *audit.Commands
	logins      *identity.Logins
	permissions *permission.Permissions
	audit       *audit.Log
	log         *slog.Logger
}

// New returns an Administration. The parts in c must outlive it.
func New(c Config) *Administration {
	return &Administration{
		cfg: c, view: c.View, policies: c.Policies, serving: c.Serving, commands: c.Commands,
		logins: c.Logins, permissions: c.Permissions, audit: c.Audit, log: c.Log,
	}
}

package broker

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/policy"
	"log/slog"
)

// administrationConfig is what it takes to administer a cluster.
type administrationConfig struct {
	// DefaultUser and DefaultPassword are made in a fresh cluster (VH-1).
	DefaultUser, DefaultPassword string

	View        func() *catalog.View
	Policies    *policy.Book
	Serving     *serving
	Commands    *commands
	Logins      *logins
	Permissions *permissions
	Audit       *audit
	Log         *slog.Logger
}

// administration makes, changes and lists users, permissions, vhosts and policies. All methods may be
// called concurrently.
type admin struct {
	cfg         administrationConfig
	view        func() *catalog.View
	policies    *policy.Book
	serving     *serving
	commands    *commands
	logins      *logins
	permissions *permissions
	audit       *audit
	log         *slog.Logger
}

func newAdministration(c administrationConfig) *admin {
	return &admin{
		cfg: c, view: c.View, policies: c.Policies, serving: c.Serving, commands: c.Commands,
		logins: c.Logins, permissions: c.Permissions, audit: c.Audit, log: c.Log,
	}
}

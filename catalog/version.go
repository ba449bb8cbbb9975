package catalog

import (
	"errors"
	"fmt"
	"strings"
)

// Version numbers the abilities of the cluster's machines: the commands that they know, and the
// layouts of their state. The catalog holds the finalised version, which all nodes can read;
// nothing newer is proposed before it is raised (RaiseVersion).
type Version uint8

// The versions, with what they introduced.
const (
	// VersionFirst is the version of a cluster that has finalised nothing yet.
	VersionFirst Version = 1
	// VersionStores introduced the finalised version itself and the identities of nodes' stores.
	VersionStores Version = 2
	// VersionUsers introduced ChangeUser, the rule that an administrator is left (VH-10), and vhosts
	// that refuse unknown arguments (C-9).
	VersionUsers Version = 3
	// VersionQuotas introduced the limits of users and vhosts beyond the first ones (VH-4, VH-14).
	VersionQuotas Version = 4
	// VersionDeclarers introduced the users that declared queues, and the limits that bound these
	// (VH-17).
	VersionDeclarers Version = 5
	// VersionBackups introduced messages with a past, which a restore stores in queues.
	VersionBackups Version = 6
	// VersionSealed introduced queues that refuse what comes once they are empty and their deletion is
	// decided, Renumber for queues and SkipQueueUIDs for a catalog that are recovered, and
	// ForgetSources.
	VersionSealed Version = 7

	// NewestVersion is the newest version that this build can read.
	NewestVersion = VersionSealed
)

// ErrNewer reports bytes of a version that this build cannot read: they are intact, and a newer
// build can read them.
var ErrNewer = errors.New("written by a newer version of Quorate")

// RaiseVersion finalises a version: from then on commands and snapshots may need a node that knows
// it. The version never falls; a repeat succeeds.
type RaiseVersion struct {
	Version Version
}

func (*RaiseVersion) kind() commandKind { return kindRaiseVersion }

// append adds nothing: the version is that of the command's form.
func (*RaiseVersion) append(b []byte) []byte { return b }

// Since returns the version that a node must know to read a command. It is the first byte
// of the command's form.
func Since(cmd Command) Version {
	switch c := cmd.(type) {
	case *RaiseVersion:
		return c.Version
	case *DeclareQueue:
		if c.DeclaredBy != "" {
			return VersionDeclarers
		}
	case *RegisterNode:
		if c.Store != "" {
			return VersionStores
		}
	case *PutVHost:
		needs := limitsSince(c.each())
		if c.RefuseUnknown {
			needs = max(needs, VersionUsers)
		}
		return needs
	case *SetVHostLimits:
		return limitsSince(c.Limits.each())
	case *PutUser:
		return limitsSince(c.each())
	case *SetUserLimits:
		return limitsSince(c.Limits.each())
	case *LeaveCatalog, *NodeOut, *ReplaceNode:
		return VersionStores
	case *ChangeUser:
		return VersionUsers
	case *SkipQueueUIDs:
		return VersionSealed
	}
	return VersionFirst
}

// Version returns the finalised version.
func (v *View) Version() Version { return v.version }

// Allows returns why a command may not be proposed yet; nil: it may. Members also refuse such a
// command if it is in the log.
func (v *View) Allows(cmd Command) *Error {
	if _, raises := cmd.(*RaiseVersion); raises || Since(cmd) <= v.version {
		return nil
	}
	return &Error{
		Code: CodePreconditionFailed, Kind: "command", Name: commandName(cmd),
		Reason: fmt.Sprintf("needs version %d, and version %d is finalised in this cluster: "+
			"finish the upgrade of all nodes first; `quoratectl upgrade finalize --dry-run` names those that hold it back",
			Since(cmd), v.version),
	}
}

// raiseVersion finalizes a version. Versions never fall: entries in the log may already need the
// higher one.
func (v *View) raiseVersion(c *RaiseVersion) (Reply, *Error) {
	if c.Version < v.version {
		return Reply{}, &Error{
			Code: CodePreconditionFailed, Kind: "command", Name: commandName(c),
			Reason: fmt.Sprintf("version %d is finalised already, and it never falls", v.version),
		}
	}
	v.version = c.Version
	return Reply{}, nil
}

func commandName(cmd Command) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", cmd), "*catalog.")
}

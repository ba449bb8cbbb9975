// Package catalog is the replicated metadata of the cluster: vhosts, exchanges, queues,
// bindings and nodes as one pure machine, and routing over an immutable view of it.
//
// Commands go in through Catalog.Apply and give a Reply; equal commands in equal order give equal
// state, equal replies and equal snapshot bytes on every node. The package only computes: the time
// is a parameter in milliseconds since the Unix epoch. Wrong input yields an *Error in the reply,
// never a panic.
//
// A Catalog belongs to one goroutine at a time. A View never changes and may be read
// from any goroutine; views share what did not change between them.
//
// Byte forms: docs/formats/catalog.md.
package catalog

import (
	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// DefaultVHost is the vhost that exists from the start (VH-1).
const DefaultVHost = "/"

// Limits of the catalog's commands.
const (
	// MaxNameBytes bounds the names of vhosts, exchanges and queues, in bytes (C-3).
	MaxNameBytes = message.MaxNameBytes
	// MaxKeyBytes bounds a binding key, in bytes (C-3).
	MaxKeyBytes = message.MaxNameBytes
	// MaxMembers bounds the members of one queue.
	MaxMembers = argument.MaxGroupSize
	// MaxArgumentBytes bounds an encoded argument table, in bytes.
	MaxArgumentBytes = message.MaxHeaderBytes
	// MaxNodeIDBytes and MaxAddressBytes bound what a node registers, in bytes.
	MaxNodeIDBytes  = 255
	MaxAddressBytes = 512
	// MaxStoreBytes bounds the name of a node's store, in bytes.
	MaxStoreBytes = 64
	// MaxPatternBytes bounds the pattern of a permission or policy, in bytes.
	MaxPatternBytes = 4 << 10
	// MaxTextBytes bounds a description, a tag or a hashed password, in bytes.
	MaxTextBytes = 1 << 10
	// MaxTags bounds the tags of a user or vhost.
	MaxTags = 100
	// MaxParameterBytes bounds the value of a parameter, in bytes.
	MaxParameterBytes = 64 << 10
)

// Unlimited is a limit that is not set (VH-4).
const Unlimited = -1

// Catalog is the machine. The zero value is not usable; see New.
type Catalog struct {
	view *View
}

// New returns the catalog of a new cluster: the vhost "/" with its pre-declared
// exchanges (EX-2) and nothing else.
func New() *Catalog {
	v := &View{version: VersionFirst, nextUID: id.FirstQueueUID}
	v.vhosts = v.vhosts.set(DefaultVHost, newVHost(newVHostRecord(DefaultVHost)))
	return &Catalog{view: v}
}

// From returns a catalog that continues from a view, which stays as it is: for trying out what
// commands would do.
func From(v *View) *Catalog { return &Catalog{view: v} }

// View returns the state after the last applied command.
func (c *Catalog) View() *View { return c.view }

// Apply carries out one command. index is that of the log entry and must not fall; now is
// the proposing leader's time, and never runs backwards inside the catalog (C-6). A
// refused command changes nothing but index and time. Apply keeps the command's slices
// and tables: the caller must not change them afterwards.
func (c *Catalog) Apply(index uint64, now int64, cmd Command) Reply {
	next := *c.view
	next.index = max(next.index, index)
	next.now = max(next.now, now)
	refused := next
	r, err := next.apply(cmd)
	if err != nil {
		c.view = &refused
		return Reply{Err: err, Index: refused.index}
	}
	c.view = &next
	r.Index = next.index
	return r
}

// apply changes v, which is not shared yet.
func (v *View) apply(cmd Command) (Reply, *Error) {
	if err := v.Allows(cmd); err != nil {
		return Reply{}, err
	}
	switch cmd := cmd.(type) {
	case *DeclareQueue:
		return v.declareQueue(cmd)
	case *DeleteQueue:
		return v.deleteQueue(cmd)
	case *DrainDeleteQueue:
		return v.drainDeleteQueue(cmd)
	case *SetQueueMembers:
		return v.setQueueMembers(cmd)
	case *BeginMemberChange:
		return v.beginMemberChange(cmd)
	case *CompleteMemberStep:
		return v.completeMemberStep(cmd)
	case *CancelMemberChange:
		return v.cancelMemberChange(cmd)
	case *DeclareExchange:
		return v.declareExchange(cmd)
	case *DeleteExchange:
		return v.deleteExchange(cmd)
	case *Bind:
		return v.bind(cmd)
	case *Unbind:
		return v.unbind(cmd)
	case *RegisterNode:
		return v.registerNode(cmd)
	case *ForgetNode:
		return v.forgetNode(cmd)
	case *LeaveCatalog:
		return v.leaveCatalog(cmd)
	case *NodeOut:
		return v.nodeOut(cmd)
	case *ReplaceNode:
		return v.replaceNode(cmd)
	case *PutVHost:
		return v.putVHost(cmd)
	case *DeleteVHost:
		return v.deleteVHost(cmd)
	case *SetVHostLimits:
		return v.setVHostLimits(cmd)
	case *PutUser:
		return v.putUser(cmd)
	case *ChangeUser:
		return v.changeUser(cmd)
	case *DeleteUser:
		return v.deleteUser(cmd)
	case *SetUserLimits:
		return v.setUserLimits(cmd)
	case *SetPermission:
		return v.setPermission(cmd)
	case *ClearPermission:
		return v.clearPermission(cmd)
	case *SetTopicPermission:
		return v.setTopicPermission(cmd)
	case *ClearTopicPermission:
		return v.clearTopicPermission(cmd)
	case *PutPolicy:
		return v.putPolicy(cmd)
	case *DeletePolicy:
		return v.deletePolicy(cmd)
	case *PutParameter:
		return v.putParameter(cmd)
	case *DeleteParameter:
		return v.deleteParameter(cmd)
	case *RaiseVersion:
		return v.raiseVersion(cmd)
	case *SkipQueueUIDs:
		return v.skipQueueUIDs()
	}
	return Reply{}, &Error{
		Code: CodePreconditionFailed, Kind: "command", Name: commandName(cmd),
		Reason: "unknown to this build",
	}
}

// Package target describes a cluster that faults are put into: what every cluster can report, and
// the abilities that some have. A fault names the abilities that it needs; a driver has those
// that its way of running nodes allows.
package target

import (
	"context"
	"time"

	"github.com/quorate/quorate/client"
)

// Node is a node as clients and the harness reach it.
type Node struct {
	ID     string
	Client string // address of gRPC
	AMQP   string // empty: not reachable
	HTTP   string // health and metrics; empty: not reachable
}

// Cluster is a running cluster. All methods may be called concurrently.
type Cluster interface {
	// Nodes returns the nodes, by id, as they are now: scaling changes them.
	Nodes() []Node
	// Dial gives the settings with which clients reach these nodes, in this order; none: all.
	Dial(nodes ...string) client.Config
	// Login returns user and password for AMQP.
	Login() (user, password string)
	// WaitReady waits until the node serves, its process ends, or ctx does.
	WaitReady(ctx context.Context, node string) error
	// Log returns what the node has logged since the harness's time at, as far as it is kept.
	Log(ctx context.Context, node string, at time.Time) ([]byte, error)
	// Close ends what the driver made.
	Close(ctx context.Context) error
}

// Partial is implemented by drivers whose abilities depend on the machine, or on how they were
// made.
type Partial interface {
	// Lacks returns why the driver, in spite of its methods, does not have an ability; nil: it has.
	// The ability is a nil pointer to its interface, such as (*Limits)(nil).
	Lacks(ability any) error
}

// Processes is the ability to end, pause and start a node's process.
type Processes interface {
	// Kill ends the process at once and waits until it is gone.
	Kill(ctx context.Context, node string) error
	// Stop lets the process drain and end.
	Stop(ctx context.Context, node string) error
	// Start starts a process that has ended.
	Start(ctx context.Context, node string) error
	// Running reports whether there is a process.
	Running(node string) bool
}

// Unsupervised is implemented by drivers whose processes nobody starts again when they end by themselves.
type Unsupervised interface {
	Processes
	Unsupervised()
}

// Pausing is the ability to stop a process where it stands.
type Pausing interface {
	Pause(ctx context.Context, node string) error
	Resume(ctx context.Context, node string) error
}

// Shape is what a link does to what it carries. The zero value is a link without faults.
type Shape struct {
	Delay, Jitter time.Duration
	Reorder       float64 // share of packets that overtake others, 0 to 1; connections keep their order
	BytesPerSec   int64   // 0: unbounded
}

// Network is the ability to cut links between nodes, each way for itself. Clients of
// the harness are not among the ends.
type Network interface {
	// Cut lets nothing from one node reach the other.
	Cut(ctx context.Context, from, to string) error
	// Join ends a cut; a link that was cut several times is joined as often.
	Join(ctx context.Context, from, to string) error
	// Touched returns how many packets, bytes or links cuts and shapes have touched so far: a count
	// that does not grow proves that nothing was felt.
	Touched(ctx context.Context) (uint64, error)
}

// Shaping is the ability to slow links.
type Shaping interface {
	Network
	// Shape changes what the link does; the zero Shape ends it.
	Shape(ctx context.Context, from, to string, s Shape) error
}

// Packets is the ability to lose some of what links carry, as routers do.
type Packets interface {
	Network
	// LosePackets loses this share of them, 0 to 1; 0 ends it.
	LosePackets(ctx context.Context, from, to string, share float64) error
}

// Unplugging is the ability to take a node off the network, from clients too.
type Unplugging interface {
	Unplug(ctx context.Context, node string) error
	Plug(ctx context.Context, node string) error
}

// Machines is the ability to evict a node from its machine, as before maintenance.
type Machines interface {
	// Evict closes the machine for new work and evicts the node; Return opens the machine again and
	// waits until the node has a process.
	Evict(ctx context.Context, node string) error
	Return(ctx context.Context, node string) error
}

// Rollouts is the ability to restart all nodes one after another as an upgrade does.
type Rollouts interface {
	Rollout(ctx context.Context) error
}

// Disks is the ability to hurt the file system that a node's data is on.
type Disks interface {
	// Fill takes all free space; Free gives it back.
	Fill(ctx context.Context, node string) error
	Free(ctx context.Context, node string) error
	// Freeze lets every write hang; Thaw lets them go on.
	Freeze(ctx context.Context, node string) error
	Thaw(ctx context.Context, node string) error
	// CutPower ends the node and loses all that was not synced. The disks of several nodes are
	// cut at the same moment.
	CutPower(ctx context.Context, nodes ...string) error
	// Fail lets all calls fail with EIO until Replug.
	Fail(ctx context.Context, node string) error
	// Replug gives back a disk that failed or lost its power, as it is then.
	Replug(ctx context.Context, node string) error
}

// Files is the ability to change a stopped node's files.
type Files interface {
	Processes
	// Dir returns the data directory, as the harness reaches it.
	Dir(node string) string
}

// Stores is the ability to take away all that a node has stored.
type Stores interface {
	Processes
	// Lose ends the node and empties its disk; the node keeps its id.
	Lose(ctx context.Context, node string) error
}

// RecoveredOf is how many nodes a cluster must have for one of them to be Recovery's: with the first of the others lost,
// that one and the last are the only majority.
const RecoveredOf = 3

// Recovery is the ability to let a node go on without others that were lost for good, as operators do with quorate
// recover.
type Recovery interface {
	Stores
	// Recover runs it on a node that has ended, and accepts the loss.
	Recover(ctx context.Context, node string, lost []string) error
}

// Scaling is the ability to add nodes to the cluster, and to take away those that it has forgotten.
type Scaling interface {
	// Add starts a node that the cluster does not have, with an empty disk, and returns its id. The node joins by itself.
	Add(ctx context.Context) (node string, err error)
	// Remove ends a node, which is one of Nodes no longer, and empties its disk.
	Remove(ctx context.Context, node string) error
	// OnlyNewest reports whether Remove takes no other node than the one that was added last.
	OnlyNewest() bool
}

// Clocks is the ability to step a node's wall clock.
type Clocks interface {
	// Step shifts the node's wall clock by d from the true time; 0 ends it.
	Step(ctx context.Context, node string, d time.Duration) error
}

// Limits is the ability to take resources away from a node.
type Limits interface {
	// CPU bounds the node to a share of one processor; 0: no bound.
	CPU(ctx context.Context, node string, share float64) error
	// Throttled returns for how long the bound has held the node up so far.
	Throttled(ctx context.Context, node string) (time.Duration, error)
}

// Memory is the ability to take memory away from a node.
type Memory interface {
	Processes
	// Squeeze leaves the node's process little more memory than it uses; if it asks for more, it is killed. Release
	// ends that.
	Squeeze(ctx context.Context, node string) error
	Release(ctx context.Context, node string) error
	// Squeezed returns how often the node has asked for more than it had.
	Squeezed(ctx context.Context, node string) (uint64, error)
}

// Descriptors is the ability to bound the files and connections that a node's process has open.
type Descriptors interface {
	// Descriptors leaves the process so many more than it has open; negative: as many as before.
	Descriptors(ctx context.Context, node string, spare int) error
}

// Call is what a node's process asks of a file of its log.
type Call string

// The calls.
const (
	Write Call = "write"
	Sync  Call = "sync"
)

// Tampering is what is done to calls. The zero value lets all through; one without Delay and Tear
// answers them with EIO.
type Tampering struct {
	Call  Call
	Times int           // that are hit; 0: all until it ends
	Delay time.Duration // before the call is let through
	// Tear, if it is not 0, is the share of a write's bytes, to 1, of which all but the last reach the
	// file; the process ends with SIGKILL at this moment.
	Tear float64
}

// Calls is the ability to tamper with what a node's process asks of its log.
type Calls interface {
	Processes
	// Tamper does that to the calls of the node's process, and of those that follow it.
	Tamper(ctx context.Context, node string, how Tampering) error
	// Tampered returns how many calls were hit so far.
	Tampered(ctx context.Context, node string) (uint64, error)
}

// Builds is the ability to run another build of the node.
type Builds interface {
	Processes
	// Use chooses the build by name, current or other, from the next start on.
	Use(ctx context.Context, node, build string) error
}

// Build names for Builds.
const (
	Current = "current"
	Other   = "other"
)

// Package target describes a cluster that faults are put into: what every cluster can tell, and
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

// Pausing is the ability to stop a process where it stands.
type Pausing interface {
	Pause(ctx context.Context, node string) error
	Resume(ctx context.Context, node string) error
}

// Shape is what a link does to packets. The zero value is a link without faults.
type Shape struct {
	Delay, Jitter time.Duration
	Loss, Reorder float64 // shares, 0 to 1
	BytesPerSec   int64   // 0: unbounded
}

// Network is the ability to cut and slow links between nodes, each way for itself. Clients of
// the harness are not among the ends.
type Network interface {
	// Cut lets nothing from one node reach the other.
	Cut(ctx context.Context, from, to string) error
	// Join ends a cut; a link that was cut several times is joined as often.
	Join(ctx context.Context, from, to string) error
	// Shape changes what the link does; the zero Shape ends it.
	Shape(ctx context.Context, from, to string, s Shape) error
	// Touched returns how many packets or bytes cuts and shapes have touched so far: a count that
	// does not grow proves that nothing was felt.
	Touched(ctx context.Context) (uint64, error)
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
	// Dir returns the data directory, as the harness reaches it.
	Dir(node string) string
	// Wipe empties the data directory; the node keeps its id.
	Wipe(ctx context.Context, node string) error
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

//go:build !linux

package netns

import (
	"context"

	"github.com/quorate/quorate/chaos/target/local"
)

// Cluster cannot be had here.
type Cluster struct{ *local.Cluster }

// Possible returns why this machine cannot have such a cluster.
func Possible() error { return errElsewhere }

// Inside reports whether this process was started by Again.
func Inside() bool { return false }

// Again runs this program again where a cluster can be opened.
func Again(context.Context, ...string) error { return errElsewhere }

// Open makes networks and disks, and starts no process yet.
func Open(context.Context, Options) (*Cluster, error) { return nil, errElsewhere }

//go:build linux && !amd64

package netns

import (
	"context"
	"errors"
	"time"
)

// noClocks returns why clocks cannot be stepped.
func noClocks() error {
	return errors.New("netns: clocks are stepped by code for amd64 alone")
}

// Step implements target.Clocks.
func (*Cluster) Step(context.Context, string, time.Duration) error { return noClocks() }

//go:build !linux

package local

import (
	"context"
	"errors"
)

// noDescriptors returns why descriptors cannot be bounded.
func noDescriptors() error { return errors.New("local: descriptors are bounded on Linux alone") }

// Descriptors implements target.Descriptors.
func (*Cluster) Descriptors(context.Context, string, int) error { return noDescriptors() }

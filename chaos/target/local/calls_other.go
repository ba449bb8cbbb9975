//go:build !linux || !amd64

package local

import (
	"context"
	"errors"

	"github.com/quorate/quorate/chaos/target"
)

// tamperers are none.
type tamperers struct{}

// noTampering returns why calls cannot be tampered with.
func noTampering() error {
	return errors.New("local: a process's calls are tampered with on Linux and amd64 alone")
}

func (*tamperers) enlist(string, string) {}

func (*tamperers) attach(string) error { return nil }

// Tamper implements target.Calls.
func (*Cluster) Tamper(context.Context, string, target.Tampering) error { return noTampering() }

// Tampered implements target.Calls.
func (*Cluster) Tampered(context.Context, string) (uint64, error) { return 0, noTampering() }

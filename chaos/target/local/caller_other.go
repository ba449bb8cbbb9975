//go:build !linux

package local

import (
	"errors"
	"net"

	"github.com/quorate/quorate/chaos"
)

// noRelay returns why links cannot be cut on this machine.
func noRelay() error {
	return errors.New("local: links are cut on Linux alone, where each node has an address of loopback of its own")
}

// caller returns the node whose process has the other end of a connection.
func caller([]*chaos.Node, net.Conn) (string, error) { return "", noRelay() }

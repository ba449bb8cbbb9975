//go:build !linux

package gate

import (
	"net"
	"time"
)

// AcknowledgeWithin does nothing: this system has no such bound for a connection.
func AcknowledgeWithin(*net.TCPConn, time.Duration) error { return nil }

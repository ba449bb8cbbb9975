//go:build !linux

package gate

import "time"

// AcknowledgeWithin does nothing: this system has no such bound for a connection.
func (*Conn) AcknowledgeWithin(time.Duration) error { return nil }

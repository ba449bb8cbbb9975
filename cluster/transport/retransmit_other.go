//go:build !linux

package transport

import "net"

// repeatEvenly does nothing: this system is not known to be able to.
func repeatEvenly(*net.TCPConn) {}

// retransmissionOf knows nothing: this system is not asked.
func retransmissionOf(*net.TCPConn) (retransmission, bool) { return retransmission{}, false }

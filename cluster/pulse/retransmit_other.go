//go:build !linux

package pulse

import "net"

// RepeatEvenly does nothing: this system is not known to be able to.
func RepeatEvenly(*net.TCPConn) {}

// retransmissionOf knows nothing: this system is not asked.
func retransmissionOf(*net.TCPConn) (retransmission, bool) { return retransmission{}, false }

package gate

import (
	"fmt"
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall lacks.
const tcpUserTimeout = 18

// AcknowledgeWithin makes the kernel end a connection when sent data stays unacknowledged for a time, in whole
// milliseconds. Without it, a node finds a vanished client only when the kernel gives up retransmission, after about
// a quarter of an hour.
func AcknowledgeWithin(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds())) // a small number
	})
	if err == nil {
		err = set
	}
	if err != nil {
		return fmt.Errorf("gate: TCP_USER_TIMEOUT: %w", err)
	}
	return nil
}

//go:build unix

package gate

import (
	"math"
	"net"
	"syscall"
)

// descriptorLimit returns how many file descriptors the process may have. The Go runtime has raised
// it to the hard limit.
func descriptorLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur > math.MaxInt32 {
		return math.MaxInt
	}
	return int(l.Cur)
}

// descriptorOf returns the number of a connection's file descriptor; 0 if the connection is closed.
func descriptorOf(c *net.TCPConn) (number int) {
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { number = int(fd) }) // small
	}
	if err != nil {
		return 0
	}
	return number
}

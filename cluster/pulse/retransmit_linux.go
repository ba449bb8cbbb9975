package pulse

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// RepeatEvenly has the system try again at even intervals, not at ever longer ones, while a few packets at most are on
// their way: those of heartbeats, and those that open a connection. After six attempts the intervals grow. Where the
// system cannot do this they grow from the first one on.
func RepeatEvenly(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed, which its reader reports
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, 1) // it works without
	})
}

// retransmissionOf asks the system about a connection. false: the system does not know, or the connection is closed.
func retransmissionOf(c *net.TCPConn) (retransmission, bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return retransmission{}, false
	}
	var info *unix.TCPInfo
	failed := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if failed != nil || err != nil {
		return retransmission{}, false
	}
	return retransmission{
		waits: info.Unacked > 0,
		fails: int(info.Backoff),
		since: time.Duration(info.Last_data_sent) * time.Millisecond,
		until: time.Duration(info.Rto) * time.Microsecond,
	}, true
}

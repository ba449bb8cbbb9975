package serve

import (
	"net"
	"os"
	"strings"
)

// managerSocket names the variable with the socket of the service manager that started the process.
const managerSocket = "NOTIFY_SOCKET"

// States of a process for its service manager, as sd_notify(3) defines them.
const (
	managerReady    = "READY=1"
	managerStopping = "STOPPING=1"
)

// notifyManager sends states to the service manager, if one started this process. It is ready when it answers health probes: it
// then finds the other nodes, which may take until they are started too. The status says how far it is.
func (n *node) notifyManager(states ...string) {
	name := os.Getenv(managerSocket)
	if name == "" {
		return
	}
	if strings.HasPrefix(name, "@") {
		name = "\x00" + name[1:] // in Linux's abstract namespace
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(strings.Join(states, "\n")))
		_ = c.Close() // a datagram is sent or not
	}
	if err != nil {
		n.log.Warn("the service manager cannot be notified of the node's state", "socket", os.Getenv(managerSocket), "error", err)
	}
}

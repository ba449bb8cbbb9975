package local

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/chaos"
)

// noRelay returns why links cannot be cut on this machine.
func noRelay() error { return nil }

// caller returns the node whose process has the other end of a connection.
func caller(nodes []*chaos.Node, c net.Conn) (string, error) {
	inode, err := inodeOf(c.RemoteAddr(), c.LocalAddr())
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		pid, running := n.Running()
		if !running {
			continue
		}
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil && to == "socket:["+inode+"]" {
				return n.ID, nil
			}
		}
	}
	return "", errors.New("local: a connection of no node")
}

// inodeOf returns what names the socket with these ends in /proc.
func inodeOf(local, remote net.Addr) (string, error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	want := [2]string{procAddress(local), procAddress(remote)}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// sl local remote state queues timer retransmits uid timeout inode
		if fields := strings.Fields(lines.Text()); len(fields) > 9 && [2]string(fields[1:3]) == want {
			return fields[9], nil
		}
	}
	return "", fmt.Errorf("local: no socket leads from %s to %s", local, remote)
}

// procAddress is an address as /proc/net/tcp writes it, the bytes of the host in the machine's order.
func procAddress(a net.Addr) string {
	at, is := a.(*net.TCPAddr)
	if !is || at.IP.To4() == nil {
		return ""
	}
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(at.IP.To4()), at.Port)
}

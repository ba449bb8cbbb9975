// Package loopback hands out addresses of this machine to processes that are started, killed and
// restarted at the same address. No two processes that use this package get the same address. Tests
// that run side by side therefore do not take each other's ports while a node is down.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports below those that the kernel gives to outgoing connections, which could take the port of a
// process that is down. A process claims a block of ports when it listens at the block's first
// port. The kernel ends the claim with the process.
const (
	host          = "127.0.0.1"
	lowest        = 10000
	blockPorts    = 500
	blocks        = 44
	firstHandedIn = 1 // place in a block of the first port that is handed out
	// wellKnown is a port in the range that programs ask for by its number, that of RabbitMQ's web page. Nobody claims its block.
	wellKnown = 15672
)

// ErrNone means that other processes have claimed all ports.
var ErrNone = errors.New("loopback: no port is left: end other processes that run nodes for tests")

// claim is the block of this process. It hands ports out in turn, so that a port that was given up
// is not reused soon.
var claim struct { //nolint:gochecknoglobals // the claim is the whole process's
	sync.Mutex
	listener net.Listener // at the block's first port; nil: no block is claimed yet
	first    int
	next     int
}

// Address returns a host:port that is free for TCP and UDP. No other process gets it from this
// package while this one runs. For concurrent use.
func Address() (string, error) {
	claim.Lock()
	defer claim.Unlock()
	if claim.listener == nil {
		if err := claimBlock(); err != nil {
			return "", err
		}
	}
	for range blockPorts - firstHandedIn {
		port := claim.first + claim.next
		if claim.next++; claim.next == blockPorts {
			claim.next = firstHandedIn
		}
		if address := addressOf(port); Free(address) {
			return address, nil
		}
	}
	return "", fmt.Errorf("%w: all of %d to %d are in use", ErrNone, claim.first, claim.first+blockPorts-1)
}

// claimBlock claims any free block. The caller holds the lock.
func claimBlock() error {
	for _, block := range rand.Perm(blocks) {
		first := lowest + block*blockPorts
		if first <= wellKnown && wellKnown < first+blockPorts {
			continue
		}
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addressOf(first))
		if err == nil {
			claim.listener, claim.first, claim.next = l, first, firstHandedIn
			return nil
		}
	}
	return ErrNone
}

func addressOf(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// Free reports whether the address is free now, for TCP and UDP.
func Free(address string) bool {
	var lc net.ListenConfig
	tcp, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return false
	}
	udp, err := lc.ListenPacket(context.Background(), "udp", address)
	if err != nil {
		_ = tcp.Close() // it is not free anyway
		return false
	}
	return errors.Join(tcp.Close(), udp.Close()) == nil
}

//go:build linux

package attack

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// enough messages of 64 KiB for the log to begin another segment of 64 MiB, and some more.
const (
	largeBytes = 64 << 10
	segmentful = 1200
)

// Connections of unauthenticated clients leave the file descriptors that the log needs.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	v := attacked(t, "timeouts:\n  login: 1h\n")
	h := v.behave(largeBytes)
	h.more(1)
	const limit = 300
	v.limitDescriptors(limit)
	c := v.crowd()
	for _, address := range []string{v.node.Client, v.node.AMQP, v.node.HTTP, v.node.Peer, v.node.Gossip} {
		c.come(400, address, nil)
	}
	if n := v.descriptors(); n > limit*3/4 {
		t.Errorf("%d of %d file descriptors are in use", n, limit)
	}
	v.behave(1000).more(1) // who comes now gets in
	h.more(segmentful)
	if n := v.figure("quorate_log_descriptor_waits_total"); n != 0 {
		t.Errorf("the log had to wait for a descriptor %v times", n)
	}
	h.end()
}

// A node without any file descriptor that is free does not end: it waits for one, says so, and continues.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	v := attacked(t, "timeouts:\n  disk_hang: 3s\n")
	h := v.behave(largeBytes)
	h.more(1)
	was := v.limitDescriptors(3)
	if _, hard := v.limits(); was != hard {
		t.Errorf("the limit was %d, and may be %d: the node has not raised it", was, hard)
	}
	v.until("the log waits", func() error {
		text, err := os.ReadFile(v.node.LogFile())
		if err == nil && !strings.Contains(string(text), "the log waits for a file descriptor") {
			err = errors.New("it does not say so")
		}
		return err
	})
	v.limitDescriptors(was)
	h.forgive() // probes were not answered
	h.more(100)
	if n := v.figure("quorate_log_descriptor_waits_total"); n == 0 {
		t.Error("the log did not wait")
	}
	h.stop()
}

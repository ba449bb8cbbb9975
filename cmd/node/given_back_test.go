package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

const (
	refusedLogins = 6  // each of which hashes a password
	hashedMiB     = 30 // a node has had more than this of its own at some time after them
	restsMiB      = 24 // and soon has less than this; at rest a node has some 10
)

// A node gives back what hashing passwords needed, 19 MiB each, when it is at rest again.
func TestMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	binary := build(t)
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	n := c.Nodes[0]
	most := 0
	for i := range refusedLogins {
		cl, err := client.Dial(ctx, client.Config{
			Addresses: []string{n.Client}, FixedAddresses: true, Username: "guest", Password: fmt.Sprint("wrong", i),
		})
		if err == nil {
			cl.Close()
			t.Fatal("a wrong password logs in")
		}
		most = max(most, ownMiB(t, n))
	}
	if most < hashedMiB {
		t.Fatalf("the node had at most %d MiB: the test shows nothing", most)
	}
	for own := most; own >= restsMiB; own = ownMiB(t, n) {
		if wait.For(ctx, 200*time.Millisecond) != nil {
			t.Fatalf("the node still has %d MiB of %d", own, most)
		}
	}
}

const (
	waitingMessages = 60_000
	waitingBytes    = 1 << 10 // of each body: 60 MB in all
	publishedMiB    = 30      // a node has had more than this of its own at some time before they waited
)

// Messages that wait need next to no memory once nobody publishes or consumes any longer, and nor do messages that
// have been consumed.
func TestWaitingMessagesLeaveMemory(t *testing.T) {
	t.Parallel()
	binary := build(t)
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	n := c.Nodes[0]
	cl, err := client.Dial(ctx, client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "waiting"}); err != nil {
		t.Fatal(err)
	}
	rests := func(when string) {
		t.Helper()
		for own := ownMiB(t, n); own >= restsMiB; own = ownMiB(t, n) {
			if wait.For(ctx, 200*time.Millisecond) != nil {
				t.Fatalf("the node still has %d MiB when messages %s", own, when)
			}
		}
	}
	if most := publishWaiting(ctx, t, cl, n); most < publishedMiB {
		t.Fatalf("the node had at most %d MiB: the test shows nothing", most)
	}
	rests("wait")
	consumeWaiting(ctx, t, cl)
	rests("are consumed")
}

// waitingBody is the body of a message, which names it.
func waitingBody(i int) []byte {
	return append(fmt.Appendf(nil, "message %d ", i), make([]byte, waitingBytes)...)
}

// publishWaiting publishes the messages, and waits for their confirms. It returns the most that a node had meanwhile.
func publishWaiting(ctx context.Context, t *testing.T, c *client.Client, n *chaos.Node) (mostMiB int) {
	t.Helper()
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var failed atomic.Pointer[error]
	for i := range waitingMessages {
		err := p.PublishAsync(ctx, client.Message{RoutingKey: "waiting", Body: waitingBody(i)}, func(_ client.Result, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			mostMiB = max(mostMiB, ownMiB(t, n))
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	return max(mostMiB, ownMiB(t, n))
}

// consumeWaiting consumes the messages, in their order.
func consumeWaiting(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	s, err := c.Consume(ctx, client.ConsumeConfig{Queue: "waiting", Prefetch: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range waitingMessages {
		d, err := s.Receive(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(d.Body, waitingBody(i)) {
			t.Fatalf("message %d is %.20q", i, d.Body)
		}
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// ownMiB is what a node has in physical memory of its own, not of files.
func ownMiB(t *testing.T, n *chaos.Node) int {
	t.Helper()
	pid, running := n.Running()
	if !running {
		t.Fatalf("node %s is not running: see %s", n.ID, n.LogFile())
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nRssAnon:")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		t.Fatalf("no RssAnon in kB: %s", status)
	}
	kib, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

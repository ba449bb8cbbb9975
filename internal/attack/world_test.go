//go:build linux

package attack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/gobuild"
)

const (
	startTimeout = 2 * time.Minute
	// soon bounds what holds "eventually".
	soon = 60 * time.Second
	poll = 20 * time.Millisecond
	// confirmedIn is more than a message of an honest client takes, on a disk that others use, too.
	confirmedIn = 200 * time.Millisecond
	// liveWithin is how long a health page may take before its prober would give up.
	liveWithin = 20 * time.Second
)

// program is the node's, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "quorate-attack-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "node")
	return binary, gobuild.Program(context.Background(), "../..", "./cmd/node", binary)
})

// victim is a cluster of one node.
type victim struct {
	*testing.T
	node *chaos.Node
}

// attacked starts a node with settings.
func attacked(t *testing.T, settings string) *victim {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a process: not in short mode")
	}
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Nodes: 1, Name: "attack", Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	v := &victim{t, c.Nodes[0]}
	t.Cleanup(func() {
		if _, running := v.node.Running(); !running {
			t.Error("the node has ended: ", v.logs())
		}
	})
	return v
}

func (v *victim) logs() string {
	text, err := os.ReadFile(v.node.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// until waits for a condition.
func (v *victim) until(what string, holds func() error) {
	v.Helper()
	v.within(soon, what, holds)
}

// within waits for a condition that takes some time at most.
func (v *victim) within(limit time.Duration, what string, holds func() error) {
	v.Helper()
	err := holds()
	for deadline := time.Now().Add(limit); err != nil; err = holds() {
		if time.Now().After(deadline) {
			v.Fatalf("%s: %v\n%s", what, err, v.logs())
		}
		time.Sleep(poll)
	}
}

// page returns a page of listen.http.
func (v *victim) page(path string) (string, error) {
	ctx, cancel := context.WithTimeout(v.Context(), liveWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.node.HTTP+path, nil)
	if err != nil {
		return "", err
	}
	req.Close = true // as probes do
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return string(text), err
}

// figure returns a metric of the node.
func (v *victim) figure(name string) float64 {
	v.Helper()
	text, err := v.page("/metrics")
	if err != nil {
		v.Fatal(err)
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				v.Fatal(err)
			}
			return f
		}
	}
	v.Fatalf("there is no %s", name)
	return 0
}

// peak returns what the node's process takes of memory, in bytes, at its highest since the last call
// of forgetPeak.
func (v *victim) peak() int64 {
	v.Helper()
	pid, _ := v.node.Running()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		v.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				v.Fatal(err)
			}
			return kib << 10
		}
	}
	v.Fatal("no VmHWM")
	return 0
}

// forgetPeak begins to measure the highest use of memory anew.
func (v *victim) forgetPeak() {
	v.Helper()
	pid, _ := v.node.Running()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		v.Fatal(err)
	}
}

// descriptors returns how many file descriptors the node has open.
func (v *victim) descriptors() int {
	v.Helper()
	pid, _ := v.node.Running()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		v.Fatal(err)
	}
	return len(open)
}

// limitDescriptors sets the node's RLIMIT_NOFILE and returns what it was.
func (v *victim) limitDescriptors(n uint64) (was uint64) {
	v.Helper()
	was, hard := v.limits()
	v.prlimit(&syscall.Rlimit{Cur: n, Max: hard})
	return was
}

// limits returns the node's RLIMIT_NOFILE.
func (v *victim) limits() (soft, hard uint64) {
	v.Helper()
	old := v.prlimit(nil)
	return old.Cur, old.Max
}

func (v *victim) prlimit(set *syscall.Rlimit) (old syscall.Rlimit) {
	v.Helper()
	pid, _ := v.node.Running()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(&old)), 0, 0); errno != 0 {
		v.Fatal(errno)
	}
	return old
}

// honest is a client that publishes all the time; everything must be confirmed.
type honest struct {
	v      *victim
	client *client.Client
	stop   context.CancelFunc
	ended  sync.WaitGroup
	sent   atomic.Int64
	mu     sync.Mutex
	faults []error
	slow   time.Duration
}

func (h *honest) fault(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, err)
}

// behave starts the client, whose messages have so many bytes, and looks at the node's health.
func (v *victim) behave(bytes int) *honest {
	v.Helper()
	ctx, cancel := context.WithCancel(v.Context())
	h := &honest{v: v, stop: cancel}
	var err error
	if h.client, err = client.Dial(ctx, client.Config{Addresses: []string{v.node.Client}, FixedAddresses: true}); err != nil {
		v.Fatal(err)
	}
	if _, err = h.client.DeclareQueue(ctx, client.Queue{Name: "honest"}); err != nil {
		v.Fatal(err)
	}
	p, err := h.client.Publisher(client.PublisherConfig{})
	if err != nil {
		v.Fatal(err)
	}
	h.ended.Go(func() { h.publish(ctx, p, make([]byte, bytes)) })
	h.ended.Go(func() { h.probe(ctx) })
	v.Cleanup(cancel)
	return h
}

func (h *honest) publish(ctx context.Context, p *client.Publisher, body []byte) {
	for ctx.Err() == nil {
		began := time.Now()
		r, err := p.Publish(context.WithoutCancel(ctx), client.Message{RoutingKey: "honest", Body: body})
		if err == nil && r.Outcome != client.Confirmed {
			err = fmt.Errorf("%v", r)
		}
		if err != nil {
			h.fault(fmt.Errorf("message %d: %w", h.sent.Load(), err))
			return
		}
		h.sent.Add(1)
		h.mu.Lock()
		h.slow = max(h.slow, time.Since(began))
		h.mu.Unlock()
	}
}

func (h *honest) probe(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := h.v.page("/health/live"); err != nil && ctx.Err() == nil {
			h.fault(fmt.Errorf("/health/live: %w", err))
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// forgive forgets the faults.
func (h *honest) forgive() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = nil
}

// more waits until so many more messages are confirmed.
func (h *honest) more(n int64) {
	h.v.Helper()
	want := h.sent.Load() + n
	h.v.within(soon+time.Duration(n)*confirmedIn, fmt.Sprintf("%d more messages", n), func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.faults) > 0 {
			return errors.Join(h.faults...)
		}
		if got := h.sent.Load(); got < want {
			return fmt.Errorf("%d messages, want %d", got, want)
		}
		return nil
	})
}

// end stops the client, which must have met no fault.
func (h *honest) end() {
	h.v.Helper()
	h.stop()
	h.ended.Wait()
	for _, err := range h.faults {
		h.v.Error(err)
	}
	h.v.Logf("%d messages were confirmed meanwhile, the slowest after %v", h.sent.Load(), h.slow.Round(time.Millisecond))
	h.client.Close()
}

// crowd are connections that say nothing more than their first words.
type crowd struct {
	v   *victim
	all []net.Conn
}

// come connects so often to an address, from several addresses of this host. That a connection is
// refused or cut is the node's right.
func (c *crowd) come(n int, address string, says []byte) {
	c.v.Helper()
	for i := range n {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i%8+1))}, Timeout: soon}
		nc, err := d.DialContext(c.v.Context(), "tcp", address)
		if err != nil {
			if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) {
				continue
			}
			c.v.Fatal(err)
		}
		_, _ = nc.Write(says)
		c.all = append(c.all, nc)
	}
}

func (v *victim) crowd() *crowd {
	c := &crowd{v: v}
	v.Cleanup(c.leave)
	return c
}

func (c *crowd) leave() {
	for _, nc := range c.all {
		_ = nc.Close()
	}
}

// ended waits until the node has closed all.
func (c *crowd) ended() {
	c.v.Helper()
	deadline := time.Now().Add(soon)
	for _, nc := range c.all {
		_ = nc.SetReadDeadline(deadline)
		for err := error(nil); err == nil; {
			if _, err = nc.Read(make([]byte, 512)); errors.Is(err, os.ErrDeadlineExceeded) {
				c.v.Fatalf("the connection %v -> %v is still there", nc.LocalAddr(), nc.RemoteAddr())
			}
		}
	}
}

//go:build linux

package k8slike

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	pods    = 3
	bridge  = "br0"
	service = "10.77.0.1" // the machine: DNS, and the services' address
	probing = 100 * time.Millisecond
)

// world is the machine that the pods run on. The test's goroutine owns it, except for what mu guards.
type world struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	binary string
	config string
	key    string
	resolv string
	dns    *dns
	pods   []*pod
	next   int  // last part of the next fresh address
	last   bool // there is nowhere to move leaders to: preStop may say so
	// drained, if set, looks at the cluster when a pod's preStop has ended.
	drained func(pod string) error

	mu    sync.Mutex
	ready map[string]bool // addresses of pods that are ready, the endpoints of the clients' service
	run   map[string]bool // addresses of pods that run, the endpoints of the service to join at
}

func newWorld(ctx context.Context, t *testing.T, binary string) *world {
	t.Helper()
	w := &world{t: t, ctx: ctx, dir: t.TempDir(), next: 10, ready: map[string]bool{}, run: map[string]bool{}}
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fail(os.Chmod(w.dir, 0o755))
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge"},
		{"addr", "add", service + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		fail(ip(args...))
	}
	config, err := os.ReadFile("../../deploy/k8s/base/node.yaml")
	fail(err)
	file := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(w.dir, name)
		fail(errors.Join(os.WriteFile(name, []byte(text), mode), os.Chmod(name, mode)))
		return name
	}
	w.binary = filepath.Join(w.dir, "node")
	content, err := os.ReadFile(binary)
	fail(err)
	fail(os.WriteFile(w.binary, content, 0o755))
	w.config = file("node.yaml", string(config), 0o444)
	w.key = file("gossip-key", "cXVvcmF0ZS1kZXYtZ29zc2lwLWtleS1ub3Qtc2VjcmU=", 0o440)
	fail(os.Chown(w.key, 0, user))
	w.resolv = file("resolv.conf", fmt.Sprintf("search %s svc.cluster.local cluster.local\nnameserver %s\noptions ndots:5\n", zone, service), 0o444)
	w.dns = serveDNS(t, service+":53")
	for i := range pods {
		p, err := newPod(w, "quorate-"+strconv.Itoa(i))
		fail(err)
		w.pods = append(w.pods, p)
	}
	t.Cleanup(func() {
		for _, p := range w.pods {
			if p.cmd != nil && p.over(0) != nil {
				_ = p.kill() // nobody is left to mind
			}
			if t.Failed() {
				w.showLogs(p)
			}
		}
	})
	w.serve("7070", w.ready)
	w.serve("7072", w.run)
	return w
}

// fresh returns an address that no pod had before.
func (w *world) fresh() string {
	w.next++
	return fmt.Sprintf("10.77.0.%d", w.next)
}

// Bounds of what is shown of a pod's log, in bytes.
const (
	lastShown   = 8 << 10
	stacksShown = 256 << 10
)

// showLogs prints what the pod said at last, and the stacks of its goroutines if it has left some.
func (w *world) showLogs(p *pod) {
	for life := max(1, p.life-1); life <= p.life; life++ {
		text, err := os.ReadFile(filepath.Join(w.dir, p.name, "log-"+strconv.Itoa(life)))
		end := len(text)
		if at := bytes.Index(text, []byte("\ngoroutine ")); at >= 0 {
			text = text[:min(len(text), at+stacksShown)]
			end = at
		}
		w.t.Logf("%s, start %d, its last words: %v\n%s", p.name, life, err, text[max(0, end-lastShown):])
	}
}

// serve is a service: a connection to its address and port ends at one of the endpoints, which mu guards.
func (w *world) serve(port string, endpoints map[string]bool) {
	var lc net.ListenConfig
	l, err := lc.Listen(w.ctx, "tcp4", service+":"+port)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go w.forward(in, w.endpoint(endpoints)+":"+port)
		}
	}()
}

func (w *world) forward(in net.Conn, to string) {
	defer in.Close() //nolint:errcheck // either end is gone
	var d net.Dialer
	out, err := d.DialContext(w.ctx, "tcp4", to)
	if err != nil {
		return
	}
	defer out.Close() //nolint:errcheck // either end is gone
	go func() {
		_, _ = io.Copy(out, in) // either end is gone
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out) // either end is gone
}

// endpoint returns one of the endpoints, by the map's own chance.
func (w *world) endpoint(of map[string]bool) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range of {
		return a
	}
	return "127.0.0.1"
}

// begin is how a pod comes to its next life.
type begin struct {
	pod     int
	address string        // "": a fresh one
	after   time.Duration // since the first of the round
	named   time.Duration // from the start until its name leads to it
	stale   bool          // until then its name leads to its former address, else nowhere
}

// startAll starts pods and waits until all are ready. They may be before their names lead
// to them.
func (w *world) startAll(all ...begin) {
	w.t.Helper()
	var group sync.WaitGroup
	errs := make([]error, len(all))
	for _, b := range all {
		if !b.stale {
			w.dns.publish(w.pods[b.pod].name, "")
		}
	}
	for i, b := range all {
		if b.address == "" {
			b.address = w.fresh()
		}
		group.Go(func() { errs[i] = w.start(b) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start(b begin) error {
	p := w.pods[b.pod]
	time.Sleep(b.after)
	if err := p.start(b.address); err != nil {
		return err
	}
	started := time.Now()
	w.mu.Lock()
	w.run[b.address] = true
	w.mu.Unlock()
	if b.named > 0 {
		time.AfterFunc(b.named, func() { w.dns.publish(p.name, b.address) })
	} else {
		w.dns.publish(p.name, b.address)
	}
	for {
		err := p.probe(w.ctx, "ready")
		since := time.Since(started)
		switch {
		case err == nil:
			w.t.Logf("%s at %s is ready after %v", p.name, b.address, since.Round(time.Millisecond))
			w.mu.Lock()
			w.ready[b.address] = true
			w.mu.Unlock()
			return nil
		case p.over(0) == nil:
			return fmt.Errorf("%s ended %v after its start: %w", p.name, since, p.endedBy)
		case since > patience:
			return fmt.Errorf("%s is not ready %v after its start: %w", p.name, since, err)
		}
		time.Sleep(probing)
	}
}

// away takes a pod out of the services.
func (w *world) away(p *pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ready, p.address)
	delete(w.run, p.address)
}

// killed kills pods at the same time.
func (w *world) killed(numbers ...int) {
	w.t.Helper()
	w.each(numbers, (*pod).kill)
}

// removed deletes pods at the same time, as kubectl does.
func (w *world) removed(numbers ...int) {
	w.t.Helper()
	w.each(numbers, (*pod).remove)
}

func (w *world) each(numbers []int, f func(*pod) error) {
	w.t.Helper()
	var group sync.WaitGroup
	errs := make([]error, len(numbers))
	for i, n := range numbers {
		w.away(w.pods[n])
		group.Go(func() { errs[i] = f(w.pods[n]) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

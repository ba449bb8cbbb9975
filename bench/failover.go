package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// Bounds of the failover rows.
const (
	bridgeAddress   = "10.78.0.1"
	failoverQueue   = "failover"
	failoverRate    = 500              // messages per second of the queue's publisher
	failoverRounds  = 20               // rounds of each fault
	failoverTimeout = 30 * time.Second // the run fails after this time without a confirm
	calmFor         = 700 * time.Millisecond
	imageBytes      = 1 << 30 // size of each node's disk, sparse
)

// failoverTimes are the times to the next confirm by kind of fault, in seconds.
type failoverTimes map[string][]float64

// fault is a fault of the leader's node, and its repair. Held is its least duration, also when
// confirms resume before.
type fault struct {
	name   string
	held   time.Duration
	inject func(ctx context.Context, w *failoverWorld, n *chaos.Node) error
	heal   func(ctx context.Context, w *failoverWorld, n *chaos.Node) error
}

// faults lists the faults that may hit a leader's node, each with its repair.
func faults() []fault {
	return []fault{
		{
			"killed", 0,
			func(_ context.Context, _ *failoverWorld, n *chaos.Node) error { return n.Kill() },
			func(_ context.Context, _ *failoverWorld, n *chaos.Node) error { return n.Start() },
		},
		{
			"paused", time.Second,
			func(_ context.Context, _ *failoverWorld, n *chaos.Node) error { return n.Pause() },
			func(_ context.Context, _ *failoverWorld, n *chaos.Node) error { return n.Resume() },
		},
		{
			"cut off one way", time.Second,
			func(ctx context.Context, w *failoverWorld, n *chaos.Node) error { return w.cut(ctx, n, "add") },
			func(ctx context.Context, w *failoverWorld, n *chaos.Node) error { return w.cut(ctx, n, "del") },
		},
		{
			// A disk that still takes some data is only slow, and nodes tolerate slow disks.
			"disk frozen", 2 * time.Second,
			func(ctx context.Context, w *failoverWorld, n *chaos.Node) error {
				return command(ctx, "fsfreeze", "-f", dataOf(n))
			},
			func(ctx context.Context, w *failoverWorld, n *chaos.Node) error {
				return command(ctx, "fsfreeze", "-u", dataOf(n))
			},
		},
		{
			"disk failed", 0,
			func(_ context.Context, _ *failoverWorld, n *chaos.Node) error { return shutDown(dataOf(n)) },
			func(ctx context.Context, w *failoverWorld, n *chaos.Node) error { return w.replug(ctx, n) },
		},
	}
}

// fsShutdown is FS_IOC_SHUTDOWN of linux/fs.h, and noLogFlush its argument. From then on, the file
// system answers every request with EIO.
const (
	fsShutdown = 0x8004587d
	noLogFlush = 2
)

// shutDown makes a file system fail.
func shutDown(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	how := uint32(noLogFlush)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), fsShutdown, uintptr(unsafe.Pointer(&how))); e != 0 { // the ioctl takes a pointer to its argument
		err = fmt.Errorf("shutting the file system of %s down: %w", dir, e)
	}
	return errors.Join(err, f.Close())
}

// replug waits until a node has ended because of its failed disk, mounts the disk again and starts
// the node.
func (w *failoverWorld) replug(ctx context.Context, n *chaos.Node) error {
	ending, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if _, running := n.Running(); !running {
			break
		}
		select {
		case <-ending.Done():
			return fmt.Errorf("node %s did not end when its disk failed: %w", n.ID, ending.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return errors.Join(
		command(ctx, "umount", dataOf(n)),
		command(ctx, "mount", "-o", "loop", imageOf(n), dataOf(n)),
		n.Start(),
	)
}

func dataOf(n *chaos.Node) string  { return filepath.Join(n.Dir, "data") }
func imageOf(n *chaos.Node) string { return n.Dir + ".img" }

// command runs a program until it ends.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// failover runs this program again in network and mount namespaces of its own, where it may cut
// nodes off and freeze their disks. The kernel removes all of that when the process ends.
func failover(ctx context.Context, o options) (failoverTimes, error) {
	if err := canFailover(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--propagation", "private", self,
		"-failover-world", "-binary", binary, "-rounds", fmt.Sprint(o.rounds))
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the failover rows: %w", errors.Join(err, context.Cause(ctx)))
	}
	times := failoverTimes{}
	return times, json.Unmarshal(out.Bytes(), &times)
}

// errCannot is the reason why this machine cannot measure a row.
type errCannot string

func (e errCannot) Error() string { return string(e) }

// canFailover returns the reason why this machine cannot measure the failover rows; nil: it can.
func canFailover() error {
	if os.Getuid() != 0 {
		return errCannot("needs root for namespaces and loop devices")
	}
	for _, program := range []string{"unshare", "ip", "nsenter", "mount", "mkfs.ext4", "fsfreeze"} {
		if _, err := exec.LookPath(program); err != nil {
			return errCannot("needs the program " + program)
		}
	}
	return nil
}

// failoverWorld is three nodes, each in a network namespace and on an ext4 file system of its own.
type failoverWorld struct {
	cluster *chaos.Cluster
	hosts   []string
	clients map[string]*client.Client // one for each node, connected only to it
}

// runFailoverWorld measures inside the namespaces and prints the times as JSON.
func runFailoverWorld(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "quorate-failover-")
	if err != nil {
		return err
	}
	w := &failoverWorld{clients: map[string]*client.Client{}}
	defer func() {
		w.close()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := w.build(ctx, dir, o.binary); err != nil {
		return err
	}
	times := failoverTimes{}
	for _, f := range faults() {
		for range o.rounds {
			took, err := w.round(ctx, f)
			if err != nil {
				return fmt.Errorf("leader's node %s: %w", f.name, err)
			}
			times[f.name] = append(times[f.name], took.Seconds())
		}
		all := times[f.name]
		slices.Sort(all)
		fmt.Fprintf(os.Stderr, "leader's node %s, %d times: p50 %.3f s, p99 %.3f s, worst %.3f s\n", f.name, len(all),
			all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	}
	return json.NewEncoder(os.Stdout).Encode(times)
}

// build creates the network and the disks, and starts the nodes.
func (w *failoverWorld) build(ctx context.Context, dir, binary string) error {
	for _, c := range [][]string{
		{"mkdir", "-p", "/run/netns"},
		{"mount", "-t", "tmpfs", "tmpfs", "/run/netns"},
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", "br0", "type", "bridge"},
		{"ip", "addr", "add", bridgeAddress + "/24", "dev", "br0"},
		{"ip", "link", "set", "br0", "up"},
	} {
		if err := command(ctx, c[0], c[1:]...); err != nil {
			return err
		}
	}
	config := chaos.ClusterConfig{Binary: binary, Dir: dir, Name: "failover", Settings: "log:\n  level: warn\n"}
	for i := range 3 {
		name := fmt.Sprintf("n%d", i+1)
		host := fmt.Sprintf("10.78.0.%d", 11+i)
		for _, args := range []string{
			"netns add " + name,
			"link add v" + name + " type veth peer name eth0 netns " + name,
			"link set v" + name + " master br0 up",
			"-n " + name + " link set lo up",
			"-n " + name + " addr add " + host + "/24 dev eth0",
			"-n " + name + " link set eth0 up",
		} {
			if err := command(ctx, "ip", strings.Fields(args)...); err != nil {
				return err
			}
		}
		w.hosts = append(w.hosts, host)
		config.Hosts = append(config.Hosts, chaos.Host{Address: host, Enter: []string{
			"nsenter", "--net=/run/netns/" + name, "env", "QUORATE_CLUSTER__ADMISSION=open",
		}})
		if err := makeDisk(ctx, dir, name); err != nil {
			return err
		}
	}
	var err error
	if w.cluster, err = chaos.NewCluster(config); err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := w.cluster.Start(starting); err != nil {
		return err
	}
	for _, n := range w.cluster.Nodes {
		c, err := client.Dial(ctx, client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
		if err != nil {
			return err
		}
		w.clients[n.ID] = c
	}
	_, err = w.clients["n1"].DeclareQueue(ctx, client.Queue{Name: failoverQueue})
	return err
}

// makeDisk mounts an ext4 file system of its own where the node's data will be.
func makeDisk(ctx context.Context, dir, node string) error {
	image, data := filepath.Join(dir, node+".img"), filepath.Join(dir, node, "data")
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	return errors.Join(
		os.Truncate(image, imageBytes),
		command(ctx, "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", image),
		command(ctx, "mount", "-o", "loop", image, data),
	)
}

// cut blocks packets from the node to its peers, or restores the way. Packets from the peers still
// arrive.
func (w *failoverWorld) cut(ctx context.Context, n *chaos.Node, what string) error {
	var errs []error
	for i, o := range w.cluster.Nodes {
		if o != n {
			errs = append(errs, command(ctx, "ip", "-n", n.ID, "route", what, "blackhole", w.hosts[i]+"/32"))
		}
	}
	return errors.Join(errs...)
}

// close stops the nodes; their disks disappear with the namespaces.
func (w *failoverWorld) close() {
	for _, c := range w.clients {
		c.Close()
	}
	if w.cluster == nil {
		return
	}
	ctx := context.Background()
	for _, n := range w.cluster.Nodes {
		_ = command(ctx, "fsfreeze", "-u", dataOf(n)) // after a run that was cut short
	}
	w.cluster.Kill()
	for _, n := range w.cluster.Nodes {
		_ = command(ctx, "umount", "-l", dataOf(n))
	}
}

// leader waits until all nodes are ready and the queue has a leader. It returns the leader's node
// and a client of another node.
func (w *failoverWorld) leader(ctx context.Context) (*chaos.Node, *client.Client, error) {
	for _, n := range w.cluster.Nodes {
		if err := n.WaitReady(ctx); err != nil {
			return nil, nil, err
		}
	}
	for {
		for _, n := range w.cluster.Nodes {
			q, err := w.clients[n.ID].GetQueue(ctx, client.QueueRef{Name: failoverQueue})
			if err != nil || q.Leader == n.ID {
				continue
			}
			if l := w.cluster.Node(q.Leader); l != nil {
				return l, w.clients[n.ID], nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the queue has no leader: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// round injects the fault at a queue's leader under load. It returns the time from the start of the
// fault to the first confirm of a message that was published when the fault was certainly in
// effect. An earlier message may have slipped through and shows nothing. The publisher is connected
// to a node without the fault.
func (w *failoverWorld) round(ctx context.Context, f fault) (time.Duration, error) {
	ready, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	node, c, err := w.leader(ready)
	if err != nil {
		return 0, err
	}
	publishing, stop := context.WithCancel(ctx)
	var hit atomic.Int64 // time when the fault was certainly in effect, in nanoseconds; 0: not yet
	first := make(chan time.Time, 1)
	ended := make(chan error, 1)
	go func() { ended <- publishOn(publishing, c, &hit, first) }()
	time.Sleep(calmFor) // lets the load start, and lets the nodes recover from the previous round
	begin := time.Now()
	err = f.inject(ctx, w, node)
	hit.Store(time.Now().UnixNano())
	var took time.Duration
	if err == nil {
		select {
		case at := <-first:
			took = at.Sub(begin)
			time.Sleep(f.held - took)
		case <-time.After(failoverTimeout):
			err = fmt.Errorf("nothing was confirmed for %v", failoverTimeout)
		}
	}
	err = errors.Join(err, f.heal(context.WithoutCancel(ctx), w, node))
	stop()
	return took, errors.Join(err, <-ended)
}

// publishOn publishes at fixed times until ctx ends, and reports the confirm of the first message
// that was sent after the fault.
func publishOn(ctx context.Context, c *client.Client, hit *atomic.Int64, first chan<- time.Time) error {
	p, err := c.Publisher(client.PublisherConfig{MaxInFlight: int(failoverTimeout.Seconds()) * failoverRate})
	if err != nil {
		return err
	}
	body := make([]byte, 100)
	tick := time.NewTicker(time.Second / failoverRate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), failoverTimeout)
			defer cancel()
			return p.Close(closing)
		case <-tick.C:
		}
		sent := time.Now().UnixNano()
		err := p.PublishAsync(ctx, client.Message{RoutingKey: failoverQueue, Body: body}, func(_ client.Result, err error) {
			if at := hit.Load(); err == nil && at != 0 && sent > at {
				select {
				case first <- time.Now():
				default:
				}
			}
		})
		if err != nil && ctx.Err() == nil {
			return errors.Join(err, p.Close(ctx))
		}
	}
}

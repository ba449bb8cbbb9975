package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/target/netns"
	"github.com/quorate/quorate/client"
)

// Bounds of the failover rows.
const (
	failoverQueue   = "failover"
	failoverRate    = 500              // messages per second of the queue's publisher
	failoverRounds  = 20               // rounds of each fault
	failoverTimeout = 30 * time.Second // the run fails after this time without a confirm
	calmFor         = 700 * time.Millisecond
)

// failoverTimes are the times without a confirm by kind of fault, in seconds.
type failoverTimes map[string][]float64

// failover runs this program again in network and mount namespaces of its own, where it may cut
// nodes off and freeze their disks. The kernel removes all of that when the process ends.
func failover(ctx context.Context, o options) (failoverTimes, error) {
	if err := netns.Possible(); err != nil {
		return nil, errCannot(err.Error())
	}
	if _, err := chooseNamed(faults(), o.faults, fault.named); err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quorate-failover-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // of a directory for temporary files
	out := filepath.Join(dir, "times.json")
	if err := netns.Again(ctx, "-failover-world", out, "-binary", binary, "-rounds", fmt.Sprint(o.rounds), "-faults", o.faults); err != nil {
		return nil, fmt.Errorf("the failover rows: %w", errors.Join(err, context.Cause(ctx)))
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	times := failoverTimes{}
	return times, json.Unmarshal(text, &times)
}

// errCannot is the reason why this machine cannot measure a row.
type errCannot string

func (e errCannot) Error() string { return string(e) }

// failoverWorld is three nodes, each in a network namespace and on an ext4 file system of its own.
type failoverWorld struct {
	cluster *netns.Cluster
	clients map[string]*client.Client // one for each node, connected only to it
}

// runFailoverWorld measures inside the namespaces and writes the times as JSON to the file o.world.
func runFailoverWorld(ctx context.Context, o options) (err error) {
	chosen, err := chooseNamed(faults(), o.faults, fault.named)
	if err != nil {
		return err
	}
	w := &failoverWorld{clients: map[string]*client.Client{}}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	if err := w.build(ctx, filepath.Dir(o.world), o.binary); err != nil {
		return err
	}
	times := failoverTimes{}
	for _, f := range chosen {
		for range o.rounds {
			took, err := w.round(ctx, f)
			if err != nil {
				return fmt.Errorf("leader's node %s: %w", f.name, err)
			}
			times[f.name] = append(times[f.name], took.Seconds())
		}
		all := slices.Sorted(slices.Values(times[f.name]))
		fmt.Fprintf(os.Stderr, "leader's node %s, %d times: p50 %.3f s, p99 %.3f s, worst %.3f s\n", f.name, len(all),
			all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	}
	text, err := json.Marshal(times)
	if err != nil {
		return err
	}
	return os.WriteFile(o.world, text, 0o600)
}

// build creates the network and the disks, starts the nodes and declares the queue.
func (w *failoverWorld) build(ctx context.Context, dir, binary string) error {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var err error
	w.cluster, err = netns.Open(starting, netns.Options{Binary: binary, Dir: dir, Settings: "log:\n  level: warn\n"})
	if err != nil {
		return err
	}
	if err := w.processes().Start(starting); err != nil {
		return err
	}
	for _, n := range w.processes().Nodes {
		c, err := client.Dial(ctx, client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
		if err != nil {
			return err
		}
		w.clients[n.ID] = c
	}
	_, err = w.clients[w.processes().Nodes[0].ID].DeclareQueue(ctx, client.Queue{Name: failoverQueue})
	return err
}

// processes returns the nodes' processes.
func (w *failoverWorld) processes() *chaos.Cluster { return w.cluster.Cluster.Cluster }

// close stops the nodes; what they had disappears with the namespaces.
func (w *failoverWorld) close(ctx context.Context) error {
	for _, c := range w.clients {
		c.Close()
	}
	if w.cluster == nil {
		return nil
	}
	w.processes().Kill()
	return w.cluster.Close(ctx)
}

// leader waits until all nodes are ready and the queue has a leader. It returns the leader's node
// and a client of another node.
func (w *failoverWorld) leader(ctx context.Context) (string, *client.Client, error) {
	for _, n := range w.processes().Nodes {
		if err := n.WaitReady(ctx); err != nil {
			return "", nil, err
		}
	}
	for {
		for _, n := range w.processes().Nodes {
			q, err := w.clients[n.ID].GetQueue(ctx, client.QueueRef{Name: failoverQueue})
			if err == nil && q.Leader != n.ID && w.processes().Node(q.Leader) != nil {
				return q.Leader, w.clients[n.ID], nil
			}
		}
		select {
		case <-ctx.Done():
			return "", nil, fmt.Errorf("the queue has no leader: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// round injects the fault at a queue's leader under load, and returns the time without a confirm. The
// publisher is connected to another node.
func (w *failoverWorld) round(ctx context.Context, f fault) (time.Duration, error) {
	ready, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	node, c, err := w.leader(ready)
	if err != nil {
		return 0, err
	}
	publishing, stop := context.WithCancel(ctx)
	seen := &confirms{next: make(chan time.Time, 1)}
	ended := make(chan error, 1)
	go func() { ended <- publishOn(publishing, c, seen) }()
	time.Sleep(calmFor) // lets the load start, and lets the nodes recover from the previous round
	took, err := w.hit(ctx, f, node, seen)
	stop()
	return took, errors.Join(err, <-ended)
}

// hit injects the fault and heals it.
func (w *failoverWorld) hit(ctx context.Context, f fault, node string, seen *confirms) (took time.Duration, err error) {
	heal := sync.OnceValue(func() error { return f.heal(context.WithoutCancel(ctx), w.cluster, node) })
	defer func() { err = errors.Join(err, heal()) }()
	seen.restart()
	from, err := f.inject(ctx, w.cluster, node)
	if err != nil {
		return 0, err
	}
	if f.strobes {
		time.Sleep(f.held)
		if err := heal(); err != nil {
			return 0, err
		}
	}
	seen.await()
	select {
	case at := <-seen.next:
		if f.strobes {
			return seen.pause(), nil
		}
		took = at.Sub(from)
		time.Sleep(f.held - took)
		return took, nil
	case <-time.After(failoverTimeout):
		return 0, fmt.Errorf("nothing was confirmed for %v", failoverTimeout)
	}
}

// confirms follows the confirms of a publisher. mu guards what is below it.
type confirms struct {
	next chan time.Time // of capacity 1: the first confirm of a message that was sent after await

	mu      sync.Mutex
	awaited time.Time // when await was called; zero: not yet
	last    time.Time // the newest confirm, or restart
	longest time.Duration
}

// restart begins to measure pauses.
func (c *confirms) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.longest = time.Now(), 0
}

// await waits for messages that are sent from now on: by now the fault is certainly in effect, or over. An
// earlier one may have slipped through and shows nothing.
func (c *confirms) await() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited = time.Now()
}

// confirmed records the confirm of a message.
func (c *confirms) confirmed(sent time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() {
		c.longest = max(c.longest, now.Sub(c.last))
	}
	c.last = now
	if !c.awaited.IsZero() && sent.After(c.awaited) {
		select {
		case c.next <- now:
		default:
		}
	}
}

// pause returns the longest time between two confirms since restart.
func (c *confirms) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longest
}

// publishOn publishes at fixed times until ctx ends.
func publishOn(ctx context.Context, c *client.Client, seen *confirms) error {
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
		sent := time.Now()
		err := p.PublishAsync(ctx, client.Message{RoutingKey: failoverQueue, Body: body}, func(_ client.Result, err error) {
			if err == nil {
				seen.confirmed(sent)
			}
		})
		if err != nil && ctx.Err() == nil {
			return errors.Join(err, p.Close(ctx))
		}
	}
}

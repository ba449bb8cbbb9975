package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// The clients that come and go before nodes are at rest again.
const (
	guests     = 60 // connections, in turn to each node
	guestSends = 200
	guestBytes = 1 << 10 // of a body
	guestQueue = "guests"
	// guardRest is the time in which the nodes of the guard come to rest.
	guardRest = 20 * time.Second
	// Units of what a node has in memory, and how many times what the guard's table has it may be.
	ownUnit, filesUnit     = "MB", "MB of files"
	ownAtMost, filesAtMost = 1.25, 1.1
)

// resident is what a node has in physical memory, or several have, in megabytes: in all, of its own, and of files, most
// of which is its program.
type resident struct{ all, own, files float64 }

// startAtRest starts three nodes as in production, which log little.
func startAtRest(ctx context.Context, o options, dir string) (*chaos.Cluster, error) {
	cluster, err := chaos.NewCluster(chaos.ClusterConfig{
		Binary: o.binary, Dir: filepath.Clean(dir), Name: "bench", Settings: "log:\n  level: warn\n", Managed: true,
	})
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := cluster.Start(starting); err != nil {
		cluster.Kill()
		return nil, err
	}
	return cluster, nil
}

// memoryRows are the memory of nodes that have just started, and of nodes whose clients have gone.
func memoryRows(ctx context.Context, cluster *chaos.Cluster, rest time.Duration) (rows []engineRow, err error) {
	for _, at := range []struct {
		name   string
		before func() error
	}{
		{"a node at rest, without queues", func() error { return nil }},
		{fmt.Sprintf("a node at rest after %d clients", guests), func() error { return comeAndGo(ctx, cluster) }},
	} {
		if err := errors.Join(at.before(), wait.For(ctx, rest)); err != nil {
			return rows, err
		}
		r, _, err := memoryOfAll(cluster)
		if err != nil {
			return rows, err
		}
		rows = append(rows, atMost(60).row(at.name+": resident memory, greatest of three", ownUnit, r.all),
			goal{}.row(at.name+": of its own", ownUnit, r.own), goal{}.row(at.name+": of files", ownUnit, r.files))
	}
	return rows, nil
}

// restRows are the memory of nodes at rest, without messages and with many that wait, for the guard.
func restRows(ctx context.Context, o options) (rows []Row, err error) {
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := startAtRest(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	defer cluster.Kill()
	if err := wait.For(ctx, guardRest); err != nil {
		return nil, err
	}
	r, _, err := memoryOfAll(cluster)
	if err != nil {
		return nil, err
	}
	waiting, err := waitingRows(ctx, cluster)
	return append([]Row{
		{Name: "a node at rest, memory of its own", Value: r.own, Unit: ownUnit},
		{Name: "a node at rest, files in memory", Value: r.files, Unit: filesUnit},
	}, waiting...), err
}

// memoryOfAll reads the memory of all nodes: the greatest that one has, and the sum.
func memoryOfAll(cluster *chaos.Cluster) (greatest, sum resident, err error) {
	for _, n := range cluster.Nodes {
		status, err := statusOf(n)
		if err != nil {
			return greatest, sum, err
		}
		for _, part := range []struct {
			name          string
			greatest, sum *float64
		}{{"VmRSS", &greatest.all, &sum.all}, {"RssAnon", &greatest.own, &sum.own}, {"RssFile", &greatest.files, &sum.files}} {
			mb, err := megabytesIn(status, part.name)
			if err != nil {
				return greatest, sum, err
			}
			*part.greatest = max(*part.greatest, mb)
			*part.sum += mb
		}
	}
	return greatest, sum, nil
}

// statusOf reads the status of a node's process.
func statusOf(n *chaos.Node) (string, error) {
	pid, running := n.Running()
	if !running {
		return "", fmt.Errorf("node %s is not running: see %s", n.ID, n.LogFile())
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return string(text), err
}

// megabytesIn parses an amount of memory in the status of a process, which has it in kB.
func megabytesIn(status, name string) (float64, error) {
	_, rest, found := strings.Cut(status, "\n"+name+":")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("the status of a process has no line %s in kB", name)
	}
	kb, err := strconv.ParseFloat(fields[0], 64)
	return kb * 1024 / 1e6, err
}

// comeAndGo connects clients that publish at the same time, and closes them; what they have published is deleted.
func comeAndGo(ctx context.Context, cluster *chaos.Cluster) (err error) {
	addresses := cluster.Addresses()
	var all sync.WaitGroup
	errs := make([]error, guests)
	owner, err := client.Dial(ctx, client.Config{Addresses: addresses})
	if err != nil {
		return err
	}
	defer owner.Close()
	if _, err := owner.DeclareQueue(ctx, client.Queue{Name: guestQueue}); err != nil {
		return err
	}
	for i := range guests {
		all.Go(func() { errs[i] = visit(ctx, addresses[i%len(addresses)]) })
	}
	all.Wait()
	_, deleting := owner.DeleteQueue(ctx, client.DeleteQueueRequest{Name: guestQueue})
	return errors.Join(errors.Join(errs...), deleting)
}

// visit publishes through a connection of its own.
func visit(ctx context.Context, address string) error {
	c, err := client.Dial(ctx, client.Config{Addresses: []string{address}, FixedAddresses: true})
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	body := make([]byte, guestBytes)
	for range guestSends {
		if _, err := p.Publish(ctx, client.Message{RoutingKey: guestQueue, Body: body}); err != nil {
			return errors.Join(err, p.Close(ctx))
		}
	}
	return p.Close(ctx)
}

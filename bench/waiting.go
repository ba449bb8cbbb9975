package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// The messages that wait in one queue, which has a replica on each node.
const (
	waitingMessages = 1_000_000
	waitingBytes    = 100 // of a body
	waitingQueue    = "waiting"
	waitingInFlight = 1000 // unconfirmed messages of each publisher
	// Units of what all nodes have in memory for each of these messages, and how many times what the guard's table has it
	// may be. What they have while they work depends on when garbage was collected, so it is only shown.
	waitingUnit, busyUnit = "B/waiting message", "B/message, at work"
	waitingAtMost         = 1.25
)

// waitingRows are the memory of all nodes when that many messages were published, when these wait and nothing else
// happens, and the same two after they were consumed; and the processor time of both.
func waitingRows(ctx context.Context, cluster *chaos.Cluster) (rows []Row, err error) {
	clients, hangUp, err := dialEach(ctx, cluster)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	if _, err := clients[0].DeclareQueue(ctx, client.Queue{Name: waitingQueue}); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{fmt.Sprintf("%d × %d B waiting", waitingMessages, waitingBytes), func() error { return publishAll(ctx, clients) }},
		{"after these were consumed", func() error { return consumeAll(ctx, clients) }},
	} {
		more, err := thenAtRest(ctx, cluster, step.do)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", step.name, err)
		}
		for _, r := range more {
			r.Name = step.name + ", " + r.Name
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// thenAtRest does something with all the messages, and returns what that cost the nodes, and what they have in memory
// when it ends and when they are at rest.
func thenAtRest(ctx context.Context, cluster *chaos.Cluster, do func() error) ([]Row, error) {
	before, err := cpu(cluster)
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := cpu(cluster)
	if err != nil {
		return nil, err
	}
	_, busy, err := memoryOfAll(cluster)
	if err != nil {
		return nil, err
	}
	if err := wait.For(ctx, guardRest); err != nil {
		return nil, err
	}
	_, rest, err := memoryOfAll(cluster)
	each := func(megabytes float64) float64 { return megabytes * 1e6 / waitingMessages }
	return []Row{
		{Name: "processor time of three nodes", Value: (after - before).Seconds() * 1e6 / waitingMessages, Unit: "s/million"},
		{Name: "at once, memory of three nodes", Value: each(busy.all), Unit: busyUnit},
		{Name: "at rest, memory of three nodes", Value: each(rest.all), Unit: waitingUnit},
		{Name: "at rest, memory of their own", Value: each(rest.own), Unit: waitingUnit},
		{Name: "at rest, files in memory", Value: each(rest.files), Unit: waitingUnit},
	}, err
}

// publishAll publishes the messages, a part over each connection, until all are confirmed.
func publishAll(ctx context.Context, clients []*client.Client) error {
	var all sync.WaitGroup
	errs := make([]error, len(clients))
	for i, c := range clients {
		n := int64((i+1)*waitingMessages/len(clients) - i*waitingMessages/len(clients))
		all.Go(func() {
			sent, err := publish(ctx, c, load{
				queue: waitingQueue, size: waitingBytes, inFlight: waitingInFlight, during: time.Duration(math.MaxInt64), limit: n,
			}, newRecorder())
			if err == nil && sent != n {
				err = fmt.Errorf("%d of %d messages are published", sent, n)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// consumeAll consumes the messages over all connections, until all are acked.
func consumeAll(ctx context.Context, clients []*client.Client) error {
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	done := drained{stop: stop}
	done.published(waitingMessages)
	done.close()
	var all sync.WaitGroup
	errs := make([]error, len(clients))
	for i, c := range clients {
		all.Go(func() { errs[i] = consume(ctx, consuming, c, waitingQueue, &done) })
	}
	all.Wait()
	return errors.Join(errs...)
}

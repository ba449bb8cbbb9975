package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// gcTrace makes a node write a line about each garbage collection.
const gcTrace = "gctrace=1"

// waitBytes is the size of waiting bodies. It is so large that a million bodies in memory would
// show in the figures.
const waitBytes = 1024

const fullPolicy = "full"

// waitRows measures messages while they are ready, then as dead letters that a full target refuses,
// and then while the target takes them. Meanwhile other publishers use a queue of their own.
func waitRows(ctx context.Context, w *deadWorld) ([]engineRow, error) {
	n := int64(w.o.waiting)
	if err := w.fillTarget(ctx); err != nil {
		return nil, err
	}
	var published work
	filling, err := w.observed(ctx, func() (err error) {
		published, err = w.fill(ctx, load{size: waitBytes, during: moveTimeout, limit: n})
		return err
	})
	if err != nil {
		return nil, err
	}
	ready, err := w.observed(ctx, func() error { return nil })
	if err != nil {
		return nil, err
	}
	if err := w.setTTL(ctx, true); err != nil {
		return nil, err
	}
	if err := w.allWait(ctx, n); err != nil {
		return nil, err
	}
	waiting, err := w.observed(ctx, func() error { return nil })
	if err != nil {
		return nil, err
	}
	var drain work
	draining, err := w.observed(ctx, func() (err error) {
		drain, err = w.timed(func() (int64, error) {
			if _, err := w.admin.DeletePolicy(ctx, client.PolicyRef{Name: fullPolicy}); err != nil {
				return 0, err
			}
			return n, w.arrived(ctx, n+1)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return waitedRows(fmt.Sprintf("%d of %d B: ", n, waitBytes), published, drain, filling, ready, waiting, draining), nil
}

// fillTarget bounds the target to one message and publishes that message.
func (w *deadWorld) fillTarget(ctx context.Context) error {
	_, err := w.admin.PutPolicy(ctx, client.Policy{
		Name: fullPolicy, Pattern: "^" + targetQueue + "$", ApplyTo: "queues", Definition: client.Table{"max-length": 1},
	})
	if err != nil {
		return err
	}
	if _, err = w.admin.PublishOne(ctx, client.Message{RoutingKey: targetQueue}); err != nil {
		return err
	}
	return w.until(ctx, func() (bool, error) {
		q, err := w.admin.GetQueue(ctx, client.QueueRef{Name: targetQueue})
		return q.Policy == fullPolicy && !q.SettingsPending && q.Figures().Messages == 1, err
	})
}

// allWait waits until n dead letters wait in the source.
func (w *deadWorld) allWait(ctx context.Context, n int64) error {
	err := w.until(ctx, func() (bool, error) {
		s, err := w.stats(ctx, sourceQueue)
		return s.MessagesDLX == uint64(n), err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d dead letters in the backlog of %s: %w", n, sourceQueue, err)
	}
	return nil
}

// observed publishes to the bystander at a modest rate for waitingTime, or until do has ended if
// that takes longer.
func (w *deadWorld) observed(ctx context.Context, do func() error) (out observation, err error) {
	atLeast := waitingTime
	if w.o.quick {
		atLeast = quickTime
	}
	var all sync.WaitGroup
	var publishing, sampling error
	over := make(chan struct{})
	r := newRecorder()
	all.Go(func() {
		l := load{queue: bystander, size: waitBytes, inFlight: w.o.inFlight, rate: w.o.rate, during: moveTimeout, over: over}
		_, publishing = publish(ctx, w.admin, l, r)
	})
	all.Go(func() { out.memory, sampling = watchMemory(w.cluster, over) })
	begin := time.Now()
	before, counting := cpu(w.cluster)
	err = errors.Join(counting, do())
	if rest := time.NewTimer(atLeast - time.Since(begin)); err == nil && w.o.rate > 0 {
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
	}
	after, counting := cpu(w.cluster)
	out.cores = (after - before).Seconds() / time.Since(begin).Seconds()
	close(over)
	all.Wait()
	_, purging := w.admin.PurgeQueue(ctx, client.QueueRef{Name: bystander})
	out.confirms = r.h
	return out, errors.Join(err, counting, publishing, sampling, purging)
}

// observation is what was measured of the cluster for a while.
type observation struct {
	memory   memory                  // the largest of any node
	confirms *hdrhistogram.Histogram // of the bystander's publisher, in microseconds
	cores    float64                 // of all nodes
}

// memory is the memory of the node that uses most, in MB.
type memory struct {
	resident float64 // without file pages
	live     float64 // live heap after the last garbage collection
}

// watchMemory samples until over and returns the maximum of each figure.
func watchMemory(cluster *chaos.Cluster, over <-chan struct{}) (most memory, err error) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		for _, n := range cluster.Nodes {
			m, err := memoryOf(n)
			if err != nil {
				return most, err
			}
			most.resident, most.live = max(most.resident, m.resident), max(most.live, m.live)
		}
		select {
		case <-tick.C:
		case <-over:
			return most, nil
		}
	}
}

// memoryOf reads a node's memory from /proc and from its log.
func memoryOf(n *chaos.Node) (m memory, err error) {
	status, err := statusOf(n)
	if err != nil {
		return m, err
	}
	if m.resident, err = megabytesIn(status, "RssAnon"); err != nil {
		return m, err
	}
	log, err := os.ReadFile(n.LogFile())
	if err != nil {
		return m, err
	}
	m.live = liveOf(string(log))
	return m, nil
}

// liveOf returns the MB that were live after the last collection in a log: the third number of
// "4->5->3 MB". 0: the log has none.
func liveOf(log string) float64 {
	at := strings.LastIndex(log, " MB, ")
	for at >= 0 {
		line := log[strings.LastIndexByte(log[:at], '\n')+1 : at]
		if _, live, found := cutLast(line, "->"); found && strings.HasPrefix(line, "gc ") {
			if mb, err := strconv.ParseFloat(live, 64); err == nil {
				return mb * 1.048576
			}
		}
		at = strings.LastIndex(log[:at], " MB, ")
	}
	return 0
}

// cutLast cuts around the last sep, where strings.Cut takes the first.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// waitedRows compares waiting dead letters with ready messages. It compares publishers during the
// drain with publishers before it, and with publishers that others disturb at full speed.
func waitedRows(label string, published, drain work, filling, ready, waiting, draining observation) []engineRow {
	p99 := func(o observation) float64 { return milliseconds(o.confirms.ValueAtQuantile(99)) }
	return []engineRow{
		goal{}.row(label+"memory of a node while ready, without files", "MB", ready.memory.resident),
		goal{}.row(label+"memory of a node while they wait for a full target, without files", "MB", waiting.memory.resident),
		atMost(1.2).row(label+"memory waiting ÷ ready", "×", waiting.memory.resident/ready.memory.resident),
		goal{}.row(label+"live heap of a node while ready", "MB", ready.memory.live),
		goal{}.row(label+"live heap of a node while they wait for a full target", "MB", waiting.memory.live),
		goal{}.row(label+"CPU of three nodes while ready, bystander included", "cores", ready.cores),
		goal{}.row(label+"CPU of three nodes while they wait for a full target, bystander included", "cores", waiting.cores),
		goal{}.row(label+"published at full speed, bystander beside", perSecond, published.rate()),
		goal{}.row(label+"drained when the target has room, bystander beside", perSecond, drain.rate()),
		atLeast(0.5).row(label+"drained ÷ published, messages/s", "×", drain.rate()/published.rate()),
		atMost(3).row(label+"drained ÷ published, CPU of three nodes for a message, bystander included", "×", drain.million()/published.million()),
		goal{}.row("bystander's confirm p99 while others publish at full speed", "ms", p99(filling)),
		goal{}.row("bystander's confirm p99 before the drain", "ms", p99(waiting)),
		goal{}.row("bystander's confirm p99 while it drains", "ms", p99(draining)),
		atMost(2).row("bystander's confirm p99, while it drains ÷ before", "×", p99(draining)/p99(waiting)),
		goal{}.row("bystander's confirm p99, while it drains ÷ while others publish", "×", p99(draining)/p99(filling)),
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

const (
	maxMicros  = 60_000_000
	prefetch   = 1000
	clockTicks = 100 // per second in /proc; fixed on Linux
)

// recorder counts latencies; record may be called concurrently.
type recorder struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

func newRecorder() *recorder { return &recorder{h: hdrhistogram.New(1, maxMicros, 3)} }

func (r *recorder) record(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.h.RecordValue(min(max(1, d.Microseconds()), maxMicros)) // within its bounds
}

// through is the outcome of a throughput run.
type through struct {
	confirmed, consumed, cpu time.Duration
	confirms                 *hdrhistogram.Histogram // in microseconds
}

// throughput publishes and consumes at the same time, through every node.
func throughput(ctx context.Context, cluster *chaos.Cluster, o options, queue string, size int) (through, error) {
	clients := make([]*client.Client, 0, len(cluster.Nodes))
	for _, n := range cluster.Nodes {
		c, err := client.Dial(ctx, client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
		if err != nil {
			return through{}, err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	before, err := cpu(cluster)
	if err != nil {
		return through{}, err
	}
	confirms := newRecorder()
	begin := time.Now()
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	var acked atomic.Int64
	var publishers, consumers sync.WaitGroup
	errs := make(chan error, 2*len(clients))
	for i, c := range clients {
		consumers.Go(func() { errs <- consume(consuming, stop, c, queue, &acked, int64(o.messages)) })
		share := o.messages / len(clients)
		if i == 0 {
			share += o.messages % len(clients)
		}
		publishers.Go(func() { errs <- publish(ctx, c, o, queue, size, share, 0, confirms) })
	}
	publishers.Wait()
	confirmed := time.Since(begin)
	consumers.Wait()
	consumed := time.Since(begin)
	after, err := cpu(cluster)
	for range 2 * len(clients) {
		err = errors.Join(err, <-errs)
	}
	return through{confirmed: confirmed, consumed: consumed, cpu: after - before, confirms: confirms.h}, err
}

// latency publishes at a modest rate, a message at a time on the clock, and returns the
// times to the confirms in microseconds.
func latency(ctx context.Context, cluster *chaos.Cluster, o options, queue string, size int) (*hdrhistogram.Histogram, error) {
	c, err := client.Dial(ctx, client.Config{Addresses: cluster.Addresses()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r := newRecorder()
	count := int(o.latencyTime.Seconds() * float64(o.rate))
	if err := publish(ctx, c, o, queue, size, count, o.rate, r); err != nil {
		return nil, err
	}
	_, err = c.PurgeQueue(ctx, "", queue)
	return r.h, err
}

// publish publishes count messages, at a rate unless it is 0, and waits for all confirms.
func publish(ctx context.Context, c *client.Client, o options, queue string, size, count, rate int, r *recorder) error {
	p, err := c.Publisher(client.PublisherConfig{MaxInFlight: o.inFlight})
	if err != nil {
		return err
	}
	body := make([]byte, size)
	var failed atomic.Pointer[error]
	begin := time.Now()
	for i := range count {
		sent := time.Now()
		if rate > 0 { // measured from when it was due: a late start is part of the latency
			sent = begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(sent))
		}
		err := p.PublishAsync(ctx, client.Message{RoutingKey: queue, Body: body}, func(_ client.Result, err error) {
			if err != nil {
				failed.Store(&err)
			}
			r.record(time.Since(sent))
		})
		if err != nil {
			return errors.Join(err, p.Close(ctx))
		}
	}
	err = p.Close(ctx)
	if first := failed.Load(); first != nil {
		err = errors.Join(*first, err)
	}
	return err
}

// consume acks until all consumers together have seen enough; then stop ends them all.
func consume(ctx context.Context, stop func(), c *client.Client, queue string, acked *atomic.Int64, enough int64) error {
	s, err := c.Consume(ctx, client.ConsumeConfig{Queue: queue, Prefetch: prefetch})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		d, err := s.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := d.Ack(); err != nil {
			return err
		}
		if acked.Add(1) == enough {
			stop()
		}
	}
}

// cpu returns the CPU time that all nodes have used so far, from /proc/PID/stat.
func cpu(cluster *chaos.Cluster) (time.Duration, error) {
	var total time.Duration
	for _, n := range cluster.Nodes {
		pid, running := n.Running()
		if !running {
			return 0, fmt.Errorf("node %s does not run: see %s", n.ID, n.LogFile())
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		ticks, err := ticksOf(string(text))
		if err != nil {
			return 0, err
		}
		total += time.Duration(ticks) * time.Second / clockTicks
	}
	return total, nil
}

// ticksOf returns user plus system time, fields 14 and 15; the name in parentheses may
// hold spaces.
func ticksOf(stat string) (int64, error) {
	_, rest, ok := strings.Cut(stat[strings.LastIndex(stat, ")")+1:], " ")
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3 // the state, field 3, is the first here
	if !ok || len(fields) <= system {
		return 0, fmt.Errorf("%q is not the form of /proc/PID/stat", stat)
	}
	u, errUser := strconv.ParseInt(fields[user], 10, 64)
	s, errSystem := strconv.ParseInt(fields[system], 10, 64)
	return u + s, errors.Join(errUser, errSystem)
}

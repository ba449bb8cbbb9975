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

// record counts a duration; the histogram is not safe for concurrent use, hence mu.
func (r *recorder) record(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.h.RecordValue(min(max(1, d.Microseconds()), maxMicros)) // the value is within the histogram's bounds
}

// through is the result of a throughput run. CPU is the processor time of the nodes until the last
// ack.
type through struct {
	messages                 int64
	confirmed, consumed, cpu time.Duration
	confirms                 *hdrhistogram.Histogram // in microseconds
}

// throughput publishes and consumes at the same time, through every node, for o.time, and then
// waits until every published message is acked.
func throughput(ctx context.Context, cluster *chaos.Cluster, o options, queue string, size int) (through, error) {
	clients, hangUp, err := dialEach(ctx, cluster)
	if err != nil {
		return through{}, err
	}
	defer hangUp()
	before, err := cpu(cluster)
	if err != nil {
		return through{}, err
	}
	out := through{}
	confirms := newRecorder()
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	done := drained{stop: stop}
	var publishers, consumers sync.WaitGroup
	errs := make(chan error, 2*len(clients))
	begin := time.Now()
	for _, c := range clients {
		consumers.Go(func() { errs <- consume(ctx, consuming, c, queue, &done) })
		publishers.Go(func() {
			n, err := publish(ctx, c, load{queue: queue, size: size, inFlight: o.inFlight, during: o.time}, confirms)
			done.published(n)
			if err != nil {
				stop() // otherwise the run would wait for messages that were not published
			}
			errs <- err
		})
	}
	publishers.Wait()
	out.confirmed = time.Since(begin)
	out.messages = done.close()
	consumers.Wait()
	out.consumed = time.Since(begin)
	after, err := cpu(cluster)
	for range 2 * len(clients) {
		err = errors.Join(err, <-errs)
	}
	out.cpu, out.confirms = after-before, confirms.h
	if err == nil && out.messages == 0 {
		err = fmt.Errorf("no message was confirmed in %s", o.time)
	}
	return out, err
}

// dialEach returns a client for each node, connected only to it, and a function that closes them
// all.
func dialEach(ctx context.Context, cluster *chaos.Cluster) (clients []*client.Client, hangUp func(), err error) {
	hangUp = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for _, n := range cluster.Nodes {
		c, err := client.Dial(ctx, client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
		if err != nil {
			hangUp()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	return clients, hangUp, nil
}

// drained calls stop when as many messages are acked as were published. Its methods may be called
// concurrently.
type drained struct {
	stop        func()
	mu          sync.Mutex
	sent, acked int64
	closed      bool
}

// published adds to the messages that must be acked.
func (d *drained) published(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent += n
}

// close ends publishing and returns the number of published messages.
func (d *drained) close() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.check()
	return d.sent
}

// ack counts one acked message.
func (d *drained) ack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked++
	d.check()
}

// check stops the load when every message is acked. The caller holds mu.
func (d *drained) check() {
	if d.closed && d.acked >= d.sent {
		d.stop()
	}
}

// latency publishes single messages at fixed times and a modest rate. It returns the times to the
// confirms in microseconds.
func latency(ctx context.Context, cluster *chaos.Cluster, o options, queue string, size int) (*hdrhistogram.Histogram, error) {
	c, err := client.Dial(ctx, client.Config{Addresses: cluster.Addresses()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r := newRecorder()
	if _, err := publish(ctx, c, load{queue: queue, size: size, inFlight: o.inFlight, rate: o.rate, during: o.latencyTime}, r); err != nil {
		return nil, err
	}
	_, err = c.PurgeQueue(ctx, client.QueueRef{Name: queue})
	return r.h, err
}

// load is the work of one publisher. Rate is in messages per second; 0: as fast as possible.
type load struct {
	queue                string
	size, inFlight, rate int
	during               time.Duration
	limit                int64           // messages to stop at; 0: no bound
	over                 <-chan struct{} // closed to stop; nil: never
}

// goesOn reports whether another message is due after n messages.
func (l load) goesOn(n int64, since time.Duration) bool {
	select {
	case <-l.over:
		return false
	default:
		return since < l.during && (l.limit == 0 || n < l.limit)
	}
}

// publish publishes, waits for all confirms and returns the number of messages.
func publish(ctx context.Context, c *client.Client, l load, r *recorder) (int64, error) {
	p, err := c.Publisher(client.PublisherConfig{MaxInFlight: l.inFlight})
	if err != nil {
		return 0, err
	}
	body := make([]byte, l.size)
	var failed atomic.Pointer[error]
	begin := time.Now()
	sent, n := begin, int64(0)
	for ; l.goesOn(n, sent.Sub(begin)); n++ {
		due := sent
		err := p.PublishAsync(ctx, client.Message{RoutingKey: l.queue, Body: body}, func(_ client.Result, err error) {
			if err != nil {
				failed.Store(&err)
			}
			r.record(time.Since(due))
		})
		if err != nil {
			return n, errors.Join(err, p.Close(ctx))
		}
		sent = time.Now()
		if l.rate > 0 { // measured from the time when it was due: a late start is part of the latency
			sent = begin.Add(time.Duration(n+1) * time.Second / time.Duration(l.rate))
			time.Sleep(time.Until(sent))
		}
	}
	err = p.Close(ctx)
	if first := failed.Load(); first != nil {
		err = errors.Join(*first, err)
	}
	return n, err
}

// consume acks messages until consuming ends, then waits until its acks are answered.
func consume(ctx, consuming context.Context, c *client.Client, queue string, done *drained) error {
	s, err := c.Consume(ctx, client.ConsumeConfig{Queue: queue, Prefetch: prefetch})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		d, err := s.Receive(consuming)
		if err != nil {
			if consuming.Err() != nil && ctx.Err() == nil {
				return s.Flush(ctx)
			}
			return err
		}
		if err := d.Ack(); err != nil {
			return err
		}
		done.ack()
	}
}

// cpu returns the CPU time that all nodes have used so far, from /proc/PID/stat.
func cpu(cluster *chaos.Cluster) (time.Duration, error) {
	var total time.Duration
	for _, n := range cluster.Nodes {
		pid, running := n.Running()
		if !running {
			return 0, fmt.Errorf("node %s is not running: see %s", n.ID, n.LogFile())
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

// ticksOf returns user plus system time, fields 14 and 15; the name in parentheses may have spaces.
func ticksOf(stat string) (int64, error) {
	_, rest, ok := strings.Cut(stat[strings.LastIndex(stat, ")")+1:], " ")
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3 // the first field here is the state, field 3
	if !ok || len(fields) <= system {
		return 0, fmt.Errorf("%q does not have the form of /proc/PID/stat", stat)
	}
	u, errUser := strconv.ParseInt(fields[user], 10, 64)
	s, errSystem := strconv.ParseInt(fields[system], 10, 64)
	return u + s, errors.Join(errUser, errSystem)
}

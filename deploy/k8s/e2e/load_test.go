//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

const (
	queue = "load"
	// goesOn is how long confirms may stay away after what was done has ended.
	goesOn = 30 * time.Second
	// settled are confirms that show that all is well again.
	settled = 100
)

// load is a publisher and a consumer that go on while things are done to pods.
type load struct {
	t         *testing.T
	ctx       context.Context
	client    *client.Client
	history   *history.History
	publisher *workload.Publisher
	stop      [2]context.CancelFunc // publishing, consuming
	done      [2]chan error
}

func newLoad(ctx context.Context, t *testing.T, c *client.Client) *load {
	t.Helper()
	if _, err := c.DeclareQueue(ctx, client.Queue{Name: queue}); err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, ctx: ctx, client: c, history: history.New()}
	l.publisher = &workload.Publisher{Client: c, History: l.history, Queue: queue, Size: 256, Rate: 200}
	consumer := &workload.Consumer{Client: c, History: l.history, Queue: queue, Prefetch: 100}
	for i, f := range []func(context.Context) error{
		func(ctx context.Context) error { return l.publisher.Run(ctx, time.Minute) }, consumer.Run,
	} {
		var working context.Context
		working, l.stop[i] = context.WithCancel(ctx)
		l.done[i] = make(chan error, 1)
		go func() { l.done[i] <- f(working) }()
		t.Cleanup(l.stop[i])
	}
	l.during(func() {})
	return l
}

// during does something and returns the longest time without a confirm, from its begin until messages are confirmed
// again after its end.
func (l *load) during(do func()) time.Duration {
	l.t.Helper()
	finished := make(chan struct{})
	longest := make(chan time.Duration, 1)
	go func() { longest <- l.watch(finished) }()
	do()
	close(finished)
	pause := <-longest
	if pause < 0 {
		l.t.Fatalf("fewer than %d confirms within %v", settled, goesOn)
	}
	return pause
}

// watch looks at the confirms until what is done has finished and messages are confirmed again; then it returns the
// longest pause. It returns a negative one if they stay away.
func (l *load) watch(finished <-chan struct{}) (longest time.Duration) {
	at, since := l.publisher.Confirmed(), time.Now()
	var after uint64
	var end time.Time
	for l.ctx.Err() == nil {
		if n := l.publisher.Confirmed(); n != at {
			longest = max(longest, time.Since(since))
			at, since = n, time.Now()
		}
		select {
		case <-finished:
			if end.IsZero() {
				end, after = time.Now(), at
			}
			if at >= after+settled {
				return longest
			}
			if time.Since(end) > goesOn {
				return -1
			}
		default:
		}
		_ = wait.For(l.ctx, 5*time.Millisecond) // the loop looks at the context
	}
	return -1
}

// finish drains the queue and judges the history: nothing that was confirmed is lost, nothing is unknown.
func (l *load) finish() {
	l.t.Helper()
	l.stop[0]()
	if err := <-l.done[0]; err != nil {
		l.t.Error(err)
	}
	for {
		q, err := l.client.GetQueue(l.ctx, client.QueueRef{Name: queue})
		if err == nil && q.Stats != nil && q.Stats.Messages == 0 {
			break
		}
		if wait.For(l.ctx, 50*time.Millisecond) != nil {
			l.t.Fatalf("the queue is not drained: %+v, %v", q, err)
		}
	}
	l.history.Add(history.Event{Kind: history.Drained, Queue: queue})
	l.stop[1]()
	if err := <-l.done[1]; err != nil {
		l.t.Error(err)
	}
	report := check.Check(l.history.Events())
	l.t.Log(report.String())
	if report.Verdict != check.Valid || report.Counts.Unknown > 0 || report.Counts.Refused > 0 {
		l.t.Errorf("the history is %s, %d unknown, %d refused", report.Verdict, report.Counts.Unknown, report.Counts.Refused)
	}
}

// memoryAtRest returns the resident memory of each node as soon as all have at most so many MiB, or that after restLimit: a
// node gives memory back when it has been at rest for a while.
func (d *deployment) memoryAtRest(most int) string {
	d.t.Helper()
	for begin := time.Now(); ; {
		all := d.memory()
		if len(all) == 0 || slices.Max(all) <= most || wait.For(d.ctx, time.Second) != nil || time.Since(begin) > restLimit {
			return fmt.Sprintf("%d MiB after %v", all, time.Since(begin).Round(time.Second))
		}
	}
}

// restLimit is by when a node at rest has given its memory back: it is at rest after 10 s.
const restLimit = time.Minute

// memory returns the resident memory of the nodes' processes in MiB, which this process namespace has beside others.
func (d *deployment) memory() []int {
	d.t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		d.t.Fatal(err)
	}
	var found []int
	for _, p := range processes {
		line, err := os.ReadFile(filepath.Join(p, "cmdline"))
		if err != nil || !strings.HasPrefix(string(line), "/quorate\x00node\x00") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p, "status"))
		if err != nil {
			d.t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "VmRSS:")
		kib, err := strconv.Atoi(strings.Fields(after)[0])
		if err != nil {
			d.t.Fatal(err)
		}
		found = append(found, kib>>10)
	}
	if len(found) != replicas {
		d.t.Errorf("%d processes of nodes run, want %d", len(found), replicas)
	}
	return found
}

//go:build linux

package k8slike

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/gobuild"
)

// binaryEnv gives the process inside the namespaces the program that the pods run.
const binaryEnv = "QUORATE_TEST_PODS_BINARY"

const (
	// limit is that of all, on a machine that is busy with other tests; usually it takes half a minute. A pod that does not
	// end has all of its grace period before.
	limit = 4 * time.Minute
	// reportTime is how long the process in the namespaces has beyond that to say what it waited for.
	reportTime = 30 * time.Second
	// patience is how long a condition may take to come true, and callTime a call that looks at it.
	patience = time.Minute
	callTime = 10 * time.Second
	queues   = 9
)

// Pods come and go in every order and with new addresses; clients go on, nothing is lost.
func TestPods(t *testing.T) {
	inNamespaces(t, inside)
}

// inNamespaces runs the rest of a test in namespaces of its own: it starts the test once more there.
func inNamespaces(t *testing.T, inside func(t *testing.T, binary string)) {
	t.Helper()
	if binary := os.Getenv(binaryEnv); binary != "" {
		if err := errors.Join(syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), syscall.Mount("proc", "/proc", "proc", 0, "")); err != nil {
			t.Fatal(err)
		}
		inside(t, binary)
		return
	}
	if testing.Short() {
		t.Skip("starts pods in namespaces: not in short mode")
	}
	if os.Getuid() != 0 {
		t.Skip("makes network namespaces, which takes root: not run by another user")
	}
	for _, tool := range []string{"ip", "mount", "chroot", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("makes network namespaces with a tool that is not here: %v", err)
		}
	}
	binary := filepath.Join(t.TempDir(), "node")
	if err := gobuild.Program(t.Context(), "../..", "./cmd/node", binary); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit+reportTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), binaryEnv+"="+binary)
	// As the first of its process namespace it takes all pods with it when it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("namespaces cannot be made here: %v", err)
	}
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// inside runs in namespaces of its own.
func inside(t *testing.T, binary string) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	w := newWorld(ctx, t, binary)
	t.Log("three pods start together for the first time")
	late := time.Second
	w.startAll(begin{pod: 2, named: late}, begin{pod: 0, after: late / 2, named: late}, begin{pod: 1, after: late, named: late})
	load := newLoad(ctx, t)
	w.drained = func(pod string) error { return load.ledBy(ctx, pod) }
	for _, r := range rounds(w) {
		t.Log(r.name)
		load.history.Add(history.Event{Kind: history.Fault, Nodes: []string{"pods"}, Note: r.name})
		from := load.publisher.Confirmed()
		r.do()
		load.goesOn(from, r.name)
		load.led(ctx)
	}
	load.finish(ctx)
}

// load is what clients do meanwhile. They know the service's address alone; the names of
// pods mean nothing to them.
type load struct {
	t         *testing.T
	client    *client.Client
	history   *history.History
	publisher *workload.Publisher
	stop      [2]context.CancelFunc // publishing, consuming
	done      [2]chan error
}

func newLoad(ctx context.Context, t *testing.T) *load {
	t.Helper()
	c, err := client.Dial(ctx, client.Config{Addresses: []string{service + ":7070"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for i := range queues {
		if _, err := c.DeclareQueue(ctx, client.Queue{Name: fmt.Sprintf("q%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	l := &load{t: t, client: c, history: history.New()}
	l.publisher = &workload.Publisher{Client: c, History: l.history, Queue: "q0", Size: 256, Rate: 200}
	consumer := &workload.Consumer{Client: c, History: l.history, Queue: "q0", Prefetch: 100}
	for i, f := range []func(context.Context) error{
		func(ctx context.Context) error { return l.publisher.Run(ctx, time.Minute) }, consumer.Run,
	} {
		var working context.Context
		working, l.stop[i] = context.WithCancel(ctx)
		l.done[i] = make(chan error, 1)
		go func() { l.done[i] <- f(working) }()
	}
	t.Cleanup(func() {
		for _, stop := range l.stop {
			stop()
		}
	})
	return l
}

// await polls until done returns no error.
func (l *load) await(what string, done func() error) {
	l.t.Helper()
	begin := time.Now()
	for err := done(); err != nil; err = done() {
		if time.Since(begin) > patience {
			l.t.Fatalf("%s: not within %v: %v", what, patience, err)
		}
		time.Sleep(probing / 10)
	}
}

// goesOn waits until publishers have had confirms.
func (l *load) goesOn(from uint64, what string) {
	l.t.Helper()
	l.await("confirms after: "+what, func() error {
		if now := l.publisher.Confirmed(); now <= from+100 {
			return fmt.Errorf("%d are confirmed, %d were before", now, from)
		}
		return nil
	})
}

// all lists the queues. A call that is not answered must not keep the test from saying so.
func (l *load) all(ctx context.Context) ([]client.QueueInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return client.Collect(l.client.Queues(ctx, client.ListQueuesRequest{WithStats: true}))
}

// led waits until all queues have a leader and all members.
func (l *load) led(ctx context.Context) {
	l.t.Helper()
	begin := time.Now()
	l.await("every queue has a leader and three members online", func() error {
		all, err := l.all(ctx)
		if err != nil {
			return err
		}
		for _, q := range all {
			if q.Leader == "" || len(q.Online) != pods {
				return fmt.Errorf("%+v", q)
			}
		}
		if len(all) != queues {
			return fmt.Errorf("%d queues are listed, want %d", len(all), queues)
		}
		return nil
	})
	l.t.Logf("all queues are complete after %v more", time.Since(begin).Round(time.Millisecond))
}

// ledBy is an error if a node leads a queue.
func (l *load) ledBy(ctx context.Context, node string) error {
	all, err := l.all(ctx)
	for _, q := range all {
		if q.Leader == node {
			err = errors.Join(err, fmt.Errorf("%s leads %s after its preStop: %+v", node, q.Name, q))
		}
	}
	return err
}

// finish drains the queue and judges the history.
func (l *load) finish(ctx context.Context) {
	l.t.Helper()
	l.stop[0]()
	if err := <-l.done[0]; err != nil {
		l.t.Error(err)
	}
	l.await("the queue is drained", func() error {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		q, err := l.client.GetQueue(ctx, client.QueueRef{Name: "q0"})
		if err == nil && (q.Stats == nil || q.Stats.Messages > 0) {
			err = fmt.Errorf("%+v, with stats %+v", q, q.Stats)
		}
		return err
	})
	l.history.Add(history.Event{Kind: history.Drained, Queue: "q0"})
	l.stop[1]()
	if err := <-l.done[1]; err != nil {
		l.t.Error(err)
	}
	report := check.Check(l.history.Events())
	l.t.Log(report.String())
	if report.Verdict != check.Valid || report.Counts.Unknown > 0 || report.Counts.Refused > 0 {
		l.t.Errorf("history is %s, %d unknown, %d refused", report.Verdict, report.Counts.Unknown, report.Counts.Refused)
	}
}

// round is one thing that happens to pods.
type round struct {
	name string
	do   func()
}

func rounds(w *world) []round {
	late := time.Second
	kill := func(name string, all ...begin) round {
		return round{name, func() {
			var numbers []int
			for _, b := range all {
				numbers = append(numbers, b.pod)
			}
			w.killed(numbers...)
			w.startAll(all...)
		}}
	}
	deleted := func(i int) round {
		return round{fmt.Sprintf("pod %d is deleted and comes back", i), func() {
			w.removed(i)
			w.startAll(begin{pod: i, named: late})
		}}
	}
	return []round{
		kill("one pod is lost", begin{pod: 0, named: late}),
		deleted(1), deleted(0), deleted(2),
		kill("two pods are lost", begin{pod: 1, named: late}, begin{pod: 2, after: late, named: late}),
		kill("all pods are lost", begin{pod: 2, named: late}, begin{pod: 0, after: late / 2, named: late}, begin{pod: 1, after: late, named: late}),
		kill("a name leads to the former address", begin{pod: 0, named: 2 * late, stale: true}),
		{"two pods are lost and come back with each other's address", func() {
			a, b := w.pods[0].address, w.pods[1].address
			w.killed(0, 1)
			w.startAll(begin{pod: 0, address: b, named: late, stale: true}, begin{pod: 1, address: a, named: 2 * late, stale: true})
		}},
		{"all pods are lost and their addresses go round", func() {
			a, b, c := w.pods[0].address, w.pods[1].address, w.pods[2].address
			w.killed(0, 1, 2)
			w.startAll(begin{pod: 0, address: b, named: 2 * late, stale: true},
				begin{pod: 1, address: c, after: late, named: late, stale: true}, begin{pod: 2, address: a, named: late, stale: true})
		}},
		{"a pod gets the address of one that is still away", func() {
			free := w.pods[2].address
			w.killed(1, 2)
			w.startAll(begin{pod: 1, address: free, named: late})
			w.startAll(begin{pod: 2, named: late})
		}},
		{"a pod is lost, and a cache keeps what its name led to", func() {
			w.dns.keep(w.pods[0].name)
			w.killed(0)
			w.startAll(begin{pod: 0})
		}},
		{"all pods are lost, and caches keep that one has no name and what those of others led to", func() {
			w.killed(0, 1, 2)
			w.dns.keep(w.pods[1].name)
			w.dns.publish(w.pods[2].name, "")
			w.dns.keep(w.pods[2].name)
			w.startAll(begin{pod: 2}, begin{pod: 0}, begin{pod: 1, after: late})
		}},
		{"all pods are lost, and caches keep what all names led to", func() {
			w.dns.keepAll()
			w.killed(0, 1, 2)
			w.startAll(begin{pod: 1}, begin{pod: 0, after: late / 2}, begin{pod: 2, after: late})
		}},
		{"all pods are deleted at once", func() {
			w.last = true
			w.removed(0, 1, 2)
			w.startAll(begin{pod: 2, named: late}, begin{pod: 1, after: late, named: late}, begin{pod: 0, after: late / 2, named: late})
		}},
	}
}

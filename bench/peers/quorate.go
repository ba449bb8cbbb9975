package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/chaos"
)

// quorate is this project's cluster, over AMQP.
type quorate struct {
	binary  string
	cluster *chaos.Cluster
}

func (q *quorate) name() string { return "Quorate" }

func (q *quorate) about() string {
	return "AMQP 0-9-1, three replicas, each confirm after fsync on two"
}

// start starts three nodes with default settings except for the log level.
func (q *quorate) start(ctx context.Context, dir string) error {
	var err error
	if q.cluster, err = chaos.NewCluster(chaos.ClusterConfig{
		Binary: q.binary, Dir: dir, Name: "peers", Settings: "log:\n  level: warn\n",
	}); err != nil {
		return err
	}
	return q.cluster.Start(ctx)
}

// stop kills the nodes.
func (q *quorate) stop() error {
	if q.cluster != nil {
		q.cluster.Kill()
	}
	return nil
}

// testify stores each node's metrics, then its log with the stacks of its goroutines. Writing the
// stacks ends the node.
func (q *quorate) testify(ctx context.Context, dir string) error {
	var errs []error
	for _, n := range q.cluster.Nodes {
		for _, what := range []string{"metrics", "metrics/queues"} {
			file := filepath.Join(dir, n.ID+"."+strings.ReplaceAll(what, "/", "-"))
			errs = append(errs, fetch(ctx, "http://"+n.HTTP+"/"+what, file))
		}
	}
	for _, n := range q.cluster.Nodes {
		errs = append(errs, abort(ctx, n))
		log, err := os.ReadFile(n.LogFile())
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, n.ID+".log"), log, 0o640))
	}
	return errors.Join(errs...)
}

// abort ends a node with SIGQUIT and waits until it has ended. The node first writes the stacks of its
// goroutines to its log. SIGCONT lets a paused node do that.
func abort(ctx context.Context, n *chaos.Node) error {
	pid, running := n.Running()
	if !running {
		return nil
	}
	if err := errors.Join(syscall.Kill(pid, syscall.SIGQUIT), syscall.Kill(pid, syscall.SIGCONT)); err != nil {
		return err
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for running {
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s did not end on SIGQUIT: %w", n.ID, ctx.Err())
		case <-look.C:
			_, running = n.Running()
		}
	}
	return nil
}

// allocated adds up what the nodes say in their metrics.
func (q *quorate) allocated(ctx context.Context) (heap, error) {
	var out heap
	var errs []error
	for _, n := range q.cluster.Nodes {
		h, err := scrape(ctx, "http://"+n.HTTP+"/metrics")
		out.bytes, out.objects = out.bytes+h.bytes, out.objects+h.objects
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// roots returns the processes whose processor time counts.
func (q *quorate) roots() []int {
	var out []int
	for _, n := range q.cluster.Nodes {
		if pid, running := n.Running(); running {
			out = append(out, pid)
		}
	}
	return out
}

// session connects to one node over AMQP, as to RabbitMQ.
func (q *quorate) session(ctx context.Context, i int) (session, error) {
	if i >= len(q.cluster.Nodes) {
		return nil, errors.New("there is no node " + fmt.Sprint(i))
	}
	return dialAMQP(ctx, q.cluster.Nodes[i].AMQP)
}

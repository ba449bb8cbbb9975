package peers

import (
	"context"
	"errors"
	"fmt"

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

func (q *quorate) start(ctx context.Context, dir string) error {
	var err error
	if q.cluster, err = chaos.NewCluster(chaos.ClusterConfig{
		Binary: q.binary, Dir: dir, Name: "peers", Settings: "log:\n  level: warn\n",
	}); err != nil {
		return err
	}
	return q.cluster.Start(ctx)
}

func (q *quorate) stop() error {
	if q.cluster != nil {
		q.cluster.Kill()
	}
	return nil
}

func (q *quorate) roots() []int {
	var out []int
	for _, n := range q.cluster.Nodes {
		if pid, running := n.Running(); running {
			out = append(out, pid)
		}
	}
	return out
}

func (q *quorate) session(_ context.Context, i int) (session, error) {
	if i >= len(q.cluster.Nodes) {
		return nil, errors.New("there is no node " + fmt.Sprint(i))
	}
	return dialAMQP(q.cluster.Nodes[i].AMQP)
}

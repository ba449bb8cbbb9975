package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// RE-1: a declaration whose time is over leaves the queue to those who use it meanwhile. Its node is frozen
// until then, and others lead the queue, declare it again, publish to it and have their confirms.
func TestDeclarerFreezes(t *testing.T) {
	const timeout = 3 * time.Second
	b := newBehind(t, "timeouts:\n  command: "+timeout.String()+"\n")
	slow, other := b.Nodes[0], b.Nodes[1]
	var inTheWay []string
	for _, n := range b.Nodes[1:] {
		// A file where the directory should be: the queue gets no leader yet.
		path := filepath.Join(n.DataDir(), datadir.QueuesDir, id.FirstQueueUID.String())
		b.must(os.WriteFile(path, nil, 0o600))
		inTheWay = append(inTheWay, path)
	}

	slowConn, slowCtx := b.raw(slow)
	began, failed := time.Now(), make(chan error, 1)
	go func() {
		_, err := brokerv1.NewAdminClient(slowConn).DeclareQueue(slowCtx, &brokerv1.DeclareQueueRequest{Name: "q"})
		failed <- err
	}()
	conn, ctx := b.raw(other)
	b.poll("binding the queue, which the catalog has", func() error {
		_, err := brokerv1.NewAdminClient(conn).Bind(ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Source: "amq.fanout", Destination: "q"}})
		return err
	})
	b.must(slow.Pause())
	for _, path := range inTheWay {
		b.must(os.Remove(path))
	}
	b.declare(other, "q")
	b.poll("publishing", func() error {
		_, err := brokerv1.NewBrokerClient(conn).PublishOne(ctx, message("q"))
		return err
	})
	b.must(wait.For(b.ctx, time.Until(began.Add(timeout)))) // time itself is what is waited for
	b.must(slow.Resume())
	// Its time is over, but a node that wakes up may see the queue's leader before it sees that.
	if err := <-failed; err != nil && status.Code(err) != codes.Unavailable {
		t.Errorf("the declaration: %v", err)
	}
	if n := b.holds(other, "q"); n == 0 {
		t.Error("the message whose publish was confirmed is not there")
	}
	b.declare(slow, "q")
}

package cases

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// RE-4: five nodes, for this case alone.
func TestT155(t *testing.T) {
	k := alone(t, "a queue of three members on five nodes grows to five by policy, while it is published to")
	five, err := chaos.NewCluster(chaos.ClusterConfig{
		Binary: filepath.Join(k.dir, "node"), Dir: filepath.Join(k.dir, k.name("nodes")), Nodes: 5, Name: "five", Settings: patience,
	})
	k.must(err)
	ctx, cancel := context.WithTimeout(context.Background(), 3*caseTimeout)
	defer cancel()
	k.ctx = ctx
	t.Cleanup(five.Kill)
	k.must(five.Start(ctx))
	c, err := client.Dial(ctx, client.Config{Addresses: five.Addresses()})
	k.must(err)
	t.Cleanup(c.Close)
	k.client = protocol{Client: c}
	q := k.queue("q", nil)
	k.same("members", len(k.members(q)), 3)

	p := steady{k: k, queue: q, stop: make(chan struct{})}
	p.wait.Go(p.run)
	k.policy("five", args{"target-group-size": 5})
	k.eventually("five members", func() error {
		if m := k.members(q); len(m) != 5 {
			return fmt.Errorf("they are %q", m)
		}
		return nil
	})
	close(p.stop)
	p.wait.Wait()
	t.Logf("%d messages, the longest wait for a confirm was %v", p.count, p.longest)
	k.same("messages", k.stats(q).MessagesReady, p.count)
}

func (k *kase) members(queue string) []string {
	k.Helper()
	q, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: queue})
	k.must(err)
	return q.Members
}

// steady publishes one message after another, each of which must be confirmed.
type steady struct {
	k       *kase
	queue   string
	stop    chan struct{}
	wait    sync.WaitGroup
	count   int
	longest time.Duration
}

func (p *steady) run() {
	for {
		select {
		case <-p.stop:
			return
		default:
		}
		began := time.Now()
		if _, err := p.k.try(p.queue, "m"); err != nil {
			p.k.Errorf("message %d: %v", p.count+1, err)
			return
		}
		p.count++
		p.longest = max(p.longest, time.Since(began))
	}
}

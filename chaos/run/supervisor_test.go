package run

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target"
)

// processes is a cluster of processes that a test ends.
type processes struct {
	target.Cluster
	target.Processes

	mu      sync.Mutex
	running map[string]bool
	starts  int
}

func (*processes) Unsupervised() {}

func (p *processes) Nodes() []target.Node { return []target.Node{{ID: "n1"}, {ID: "n2"}} }

func (p *processes) Running(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[node]
}

func (p *processes) Start(_ context.Context, node string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[node] = true
	p.starts++
	return nil
}

func (p *processes) end(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[node] = false
}

// A node that ends by itself is started again, and that is in the history; one that a fault holds is left to the fault.
func TestSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &processes{running: map[string]bool{"n1": true, "n2": true}}
		var said []string
		cfg := Config{Cluster: p, History: history.New(), Log: func(format string, a ...any) { said = append(said, fmt.Sprintf(format, a...)) }}
		s := newSupervisor(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			s.run(ctx)
			close(done)
		}()
		s.hold([]string{"n2"}, 1)
		p.end("n1")
		p.end("n2")
		time.Sleep(10 * superviseEvery)
		if !p.Running("n1") || p.Running("n2") {
			t.Errorf("running: %v", p.running)
		}
		s.hold([]string{"n2"}, -1)
		time.Sleep(10 * superviseEvery)
		if !p.Running("n2") || p.starts != 2 || len(said) != 2 {
			t.Errorf("running: %v, %d starts: %q", p.running, p.starts, said)
		}
		cancel()
		<-done
		ended := ""
		for _, e := range cfg.History.Events() {
			if e.Kind == history.Ended {
				ended += e.Node
			}
		}
		if ended != "n1n2" {
			t.Errorf("the history has %q", ended)
		}
	})
}

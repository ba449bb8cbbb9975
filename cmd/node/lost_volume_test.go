package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// load publishes numbered messages to queue q until it is stopped.
type load struct {
	mu        sync.Mutex
	confirmed map[string]bool
	stop      context.CancelFunc
	done      chan error
}

// loadInFlight is how many messages are not confirmed yet at a time.
const loadInFlight = 1

func startLoad(ctx context.Context, cl *client.Client) (*load, error) {
	p, err := cl.Publisher(client.PublisherConfig{MaxInFlight: loadInFlight})
	if err != nil {
		return nil, err
	}
	l := &load{confirmed: map[string]bool{}, done: make(chan error, 1)}
	running, stop := context.WithCancel(ctx)
	l.stop = stop
	go func() {
		for i := 0; running.Err() == nil; i++ {
			body := strconv.Itoa(i)
			err := p.PublishAsync(ctx, client.Message{RoutingKey: "q", Body: []byte(body)}, func(_ client.Result, err error) {
				if err == nil {
					l.mu.Lock()
					defer l.mu.Unlock()
					l.confirmed[body] = true
				}
			})
			if err != nil {
				l.done <- err
				return
			}
		}
		l.done <- errors.Join(p.Flush(ctx), p.Close(ctx))
	}()
	return l, nil
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.confirmed)
}

// goesOn waits until more is confirmed.
func (l *load) goesOn(ctx context.Context, t *testing.T) {
	t.Helper()
	before := l.count()
	poll(ctx, t, "more is confirmed", func() error {
		if n := l.count(); n < before+5*loadInFlight {
			return fmt.Errorf("%d are, %d were", n, before)
		}
		return nil
	})
}

// poll looks at a condition until ctx ends.
func poll(ctx context.Context, t *testing.T, what string, ok func() error) {
	t.Helper()
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// RE-9: the volume of one of three nodes is lost under load. The node is refused at each start,
// whoever else restarts meanwhile; it comes in when its old store is given up, with the process
// that waits, and then bears the loss of another one. Nothing confirmed is lost, or comes twice.
func TestLostVolume(t *testing.T) {
	t.Parallel()
	binary := build(t)
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cl := withQueue(ctx, t, c)
	defer cl.Close()
	l, err := startLoad(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	l.goesOn(ctx, t)

	first, second, lost := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	for i := range 2 {
		must(t, lost.Kill())
		if i == 0 {
			must(t, os.RemoveAll(filepath.Join(lost.Dir, "data")))
		} else {
			must(t, second.Kill(), second.Start(), second.WaitReady(ctx))
		}
		must(t, lost.Start())
		poll(ctx, t, "the node says what helps", func() error {
			text, _, err := get(ctx, t, "http://"+lost.HTTP+"/health/ready")
			if err == nil && !strings.Contains(text, "quoratectl nodes replace "+lost.ID) {
				err = errors.New(text)
			}
			return err
		})
		l.goesOn(ctx, t)
	}
	plan, err := cl.ReplaceNode(ctx, client.ReplaceNodeRequest{Node: lost.ID, DryRun: true})
	if err != nil || plan.Operation != nil || !strings.Contains(strings.Join(plan.Plan, "\n"), "1 queues have a majority") {
		t.Fatalf("planned %v, %v", plan, err)
	}
	if _, err := cl.ReplaceNode(ctx, client.ReplaceNodeRequest{Node: lost.ID}); err != nil {
		t.Fatal(err)
	}
	must(t, lost.WaitReady(ctx))
	poll(ctx, t, "its member is built anew", func() error {
		return cl.TransferLeadership(ctx, client.TransferLeadershipRequest{Queue: "q", Node: lost.ID})
	})
	must(t, first.Kill())
	l.goesOn(ctx, t)
	l.stop()
	must(t, <-l.done)
	consumeAll(ctx, t, cl, l.confirmed)
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// consumeAll takes each of the messages, and none twice.
func consumeAll(ctx context.Context, t *testing.T, cl *client.Client, want map[string]bool) {
	t.Helper()
	s, err := cl.Consume(ctx, client.ConsumeConfig{Queue: "q"})
	must(t, err)
	defer s.Close()
	seen := map[string]bool{}
	for left := len(want); left > 0; {
		d, err := s.Receive(ctx)
		if err != nil {
			t.Fatalf("%d of %d are missing: %v", left, len(want), err)
		}
		body := string(d.Body)
		if seen[body] {
			t.Errorf("message %s comes twice", body)
		}
		if seen[body] = true; want[body] {
			left--
		}
		must(t, d.Ack())
	}
}

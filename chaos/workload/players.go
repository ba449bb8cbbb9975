package workload

import (
	"context"
	"errors"
	"sync"
)

// players are the publishers and consumers of a workload.
type players struct {
	publishers []*Publisher
	consumers  []*Consumer

	mu     sync.Mutex
	failed []error
}

// add makes the players play over gRPC, with a client that knows all nodes.
func (p *players) add(w *World, publishers []*Publisher, consumers []*Consumer) {
	const class = "grpc/all"
	for _, x := range publishers {
		x.Client, x.History, x.Class, x.VHost, x.Size = w.Client, w.History, class, w.VHost, bodyBytes
	}
	for _, x := range consumers {
		x.Client, x.History, x.Class, x.VHost, x.Prefetch = w.Client, w.History, class, w.VHost, prefetch
	}
	p.publishers, p.consumers = append(p.publishers, publishers...), append(p.consumers, consumers...)
}

// play lets the publishers publish until publishing ends and waits for their answers; the
// consumers go on until ctx ends.
func (p *players) play(ctx, publishing context.Context, w *World) error {
	for _, x := range p.consumers {
		go func() { p.fails(x.Run(ctx)) }()
	}
	var working sync.WaitGroup
	for _, x := range p.publishers {
		x.Rate = max(1, w.Rate/len(p.publishers))
		working.Go(func() { p.fails(x.Run(publishing, w.Settle)) })
	}
	working.Wait()
	return p.failures()
}

// fails records why a player ended; nil is no failure.
func (p *players) fails(err error) {
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failed = append(p.failed, err)
	}
}

// failures returns what players failed by since the last call.
func (p *players) failures() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := errors.Join(p.failed...)
	p.failed = nil
	return err
}

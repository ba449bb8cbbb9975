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
	others     []func(ctx, publishing context.Context) error
	behind     []func(ctx context.Context) error

	mu     sync.Mutex
	failed []error
}

// publisher adds a publisher of a class.
func (p *players) publisher(c Class, x *Publisher) {
	x.Class = string(c)
	p.publishers = append(p.publishers, x)
}

// consumer adds a consumer of a class.
func (p *players) consumer(c Class, x *Consumer) {
	x.Class = string(c)
	p.consumers = append(p.consumers, x)
}

// other adds a player of another kind, which plays until publishing ends.
func (p *players) other(f func(ctx, publishing context.Context) error) {
	p.others = append(p.others, f)
}

// background adds a player that runs until the queues are empty, as consumers do.
func (p *players) background(f func(ctx context.Context) error) { p.behind = append(p.behind, f) }

const (
	bodyBytes = 256
	prefetch  = 200
)

// equip gives the players their clients, which are closed when ctx ends.
func (p *players) equip(ctx context.Context, w *World) error {
	var errs []error
	for i, x := range p.publishers {
		var err error
		x.Client, err = w.grpc(ctx, Class(x.Class), i)
		x.amqp, x.History, x.VHost = w.dialer(Class(x.Class), i), w.History, w.VHost
		if x.Rate == 0 {
			x.Rate = max(1, w.Rate/len(p.publishers))
		}
		if x.Size == 0 {
			x.Size = bodyBytes
		}
		errs = append(errs, err)
	}
	for i, x := range p.consumers {
		var err error
		x.Client, err = w.grpc(ctx, Class(x.Class), i+1)
		x.amqp, x.History, x.VHost = w.dialer(Class(x.Class), i+1), w.History, w.VHost
		if x.Prefetch == 0 {
			x.Prefetch = prefetch
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// play lets the publishers publish until publishing ends and waits for their answers; the
// consumers go on until ctx ends.
func (p *players) play(ctx, publishing context.Context, w *World) error {
	if err := p.equip(ctx, w); err != nil {
		return err
	}
	for _, x := range p.consumers {
		go func() { p.fails(x.Run(ctx)) }()
	}
	for _, f := range p.behind {
		go func() { p.fails(f(ctx)) }()
	}
	var working sync.WaitGroup
	for _, x := range p.publishers {
		working.Go(func() { p.fails(x.Run(publishing, w.Settle)) })
	}
	for _, f := range p.others {
		working.Go(func() { p.fails(f(ctx, publishing)) })
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

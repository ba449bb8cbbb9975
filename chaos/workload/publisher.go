package workload

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Publisher publishes numbered messages and records their fate.
type Publisher struct {
	Client  *client.Client
	History *history.History
	Class   string // of the client, for its pauses; see history.Event
	VHost   string // "": "/"
	Queue   string // that it publishes to
	Size    int    // bytes of a body; at least that of a name
	Rate    int    // messages per second; 0: as fast as they are taken
	Count   uint64 // 0: until ctx ends
	// Progress, if set, is called for every answer.
	Progress func()

	number     int // of the publisher
	unanswered sync.WaitGroup
	confirmed  atomic.Uint64
}

// Confirmed returns how many messages are confirmed so far.
func (p *Publisher) Confirmed() uint64 { return p.confirmed.Load() }

// Run publishes until ctx ends or Count is reached, then waits for answers, at most for
// settle.
func (p *Publisher) Run(ctx context.Context, settle time.Duration) error {
	pub, err := p.Client.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	p.number = p.History.Publisher()
	begin := time.Now()
	for id := uint64(1); (p.Count == 0 || id <= p.Count) && ctx.Err() == nil; id++ {
		if p.Rate > 0 && wait.For(ctx, time.Duration(id)*time.Second/time.Duration(p.Rate)-time.Since(begin)) != nil {
			break
		}
		sent := p.History.Now()
		p.History.Add(history.Event{Kind: history.Published, Client: p.Class, Publisher: p.number, ID: id, Queues: []string{p.Queue}})
		p.unanswered.Add(1)
		m := client.Message{VHost: p.VHost, RoutingKey: p.Queue, Body: EncodeID(history.Message{Publisher: p.number, ID: id}, p.Size), Properties: client.Properties{DeliveryMode: 2}}
		err := pub.PublishAsync(ctx, m, func(_ client.Result, err error) { p.answered(id, sent, err) })
		if err != nil {
			p.answered(id, sent, err)
			if ctx.Err() == nil {
				return errors.Join(err, pub.Close(ctx))
			}
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle)
	defer cancel()
	err = pub.Close(closing)
	p.unanswered.Wait()
	return err
}

// answered records one answer.
func (p *Publisher) answered(id uint64, sent time.Duration, err error) {
	defer p.unanswered.Done()
	e := history.Event{Kind: history.Confirmed, Client: p.Class, Publisher: p.number, ID: id, Sent: sent}
	var not *client.NotConfirmedError
	var invalid *client.Error
	switch {
	case err == nil:
		p.confirmed.Add(1)
	case errors.As(err, &not):
		e.Kind, e.Note = history.Refused, err.Error()
		for _, r := range not.Result.Rejections {
			if r.Cause == "unknown" {
				e.Kind = history.Unknown
			}
		}
	case errors.As(err, &invalid):
		e.Kind, e.Note = history.Refused, err.Error()
	default:
		e.Kind, e.Note = history.Unknown, err.Error()
	}
	p.History.Add(e)
	if p.Progress != nil {
		p.Progress()
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/client"
)

const (
	pollEvery     = 10 * time.Millisecond
	answerTimeout = time.Minute
	prefetch      = 1000
)

// publishAndConsume is the main job: publish with confirms, then consume and ack.
func (s *show) publishAndConsume(ctx context.Context) error {
	record := history.New()
	bar := s.progress("confirmed", s.cfg.Messages)
	begin := time.Now()
	p := &workload.Publisher{
		Client: s.client, History: record, Queue: "orders", Size: bodyBytes,
		Count: uint64(s.cfg.Messages), Progress: bar.step,
	}
	err := p.Run(ctx, answerTimeout)
	bar.end()
	if err != nil {
		return err
	}
	s.rate("published and confirmed", s.cfg.Messages, time.Since(begin))

	bar = s.progress("consumed and acked", s.cfg.Messages)
	begin = time.Now()
	see := func(*history.Event) error { bar.step(); return nil }
	err = s.consumeAll(ctx, record, "orders", nil, see)
	bar.end()
	if err != nil {
		return err
	}
	s.rate("consumed and acked", s.cfg.Messages, time.Since(begin))
	return s.judge(record, s.cfg.Messages)
}

func (s *show) rate(what string, messages int, took time.Duration) {
	s.figure(what, fmt.Sprintf("%s messages/s", thousands(int(float64(messages)/took.Seconds()))))
}

// consumeAll consumes a queue until it is empty.
func (s *show) consumeAll(ctx context.Context, h *history.History, queue string, decide func(*history.Event) history.Outcome, see func(*history.Event) error) error {
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	c := &workload.Consumer{Client: s.client, History: h, Queue: queue, Prefetch: prefetch, Decide: decide, See: see}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(consuming) }()
	err := s.wait(ctx, ended, func() (bool, error) {
		q, err := s.client.GetQueue(ctx, client.QueueRef{Name: queue})
		return err == nil && q.Stats != nil && q.Stats.Messages == 0, err
	})
	stop()
	if err == nil {
		err = <-ended
		h.Add(history.Event{Kind: history.Drained, Queue: queue})
	}
	return err
}

// wait polls until the condition holds; it is an error if ended ends first.
func (s *show) wait(ctx context.Context, ended <-chan error, holds func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		select {
		case end := <-ended:
			return errors.Join(errors.New("the client ended too early"), end)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// judge checks a history, and that it has the given number of confirmed messages.
func (s *show) judge(h *history.History, confirmed int) error {
	r := check.Check(h.Events())
	if r.Verdict != check.Valid || (confirmed > 0 && r.Counts.Confirmed != confirmed) {
		return fmt.Errorf("the clients saw a violation: %s", r.String())
	}
	s.say("   %s confirmed, %s delivered, lost 0, duplicates 0", thousands(r.Counts.Confirmed), thousands(r.Counts.Delivered-r.Counts.DeadLetters))
	return nil
}

// reject publishes, discards and looks at every dead letter's deaths.
func (s *show) reject(ctx context.Context) error {
	record := history.New()
	p := &workload.Publisher{Client: s.client, History: record, Queue: "orders", Size: bodyBytes, Count: uint64(s.cfg.Rejected)}
	if err := p.Run(ctx, answerTimeout); err != nil {
		return err
	}
	begin := time.Now()
	record.Add(history.Event{Kind: history.Declared, Queue: "orders", Spec: &history.Queue{DeadTo: "orders.dead", DeliveryLimit: -1, Ordered: true}})
	all := func(*history.Event) history.Outcome { return history.Discard }
	if err := s.consumeAll(ctx, record, "orders", all, nil); err != nil {
		return err
	}
	var deadLetters atomic.Int64
	see := func(d *history.Event) error {
		deadLetters.Add(1)
		return checkDeath(d.Deaths, "orders", "rejected")
	}
	if err := s.consumeAll(ctx, record, "orders.dead", nil, see); err != nil {
		return err
	}
	if n := int(deadLetters.Load()); n != s.cfg.Rejected {
		return fmt.Errorf("%d dead deadLetters arrived, want %d", n, s.cfg.Rejected)
	}
	if err := s.judge(record, s.cfg.Rejected); err != nil {
		return err
	}
	s.say("   each is in orders.dead once, with its death: queue orders, reason rejected, count 1")
	s.rate("rejected and dead-lettered", s.cfg.Rejected, time.Since(begin))
	return nil
}

// checkDeath checks that a dead letter died once, in that queue and for that reason.
func checkDeath(deaths []history.Death, queue, reason string) error {
	if len(deaths) != 1 || deaths[0] != (history.Death{Queue: queue, Reason: reason, Count: 1}) {
		return fmt.Errorf("a dead letter has deaths %+v, want one of queue %q, reason %s, count 1", deaths, queue, reason)
	}
	return nil
}

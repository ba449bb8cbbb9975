package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/client"
)

const (
	minTTL, maxTTL = 200 * time.Millisecond, 4 * time.Second
	maxLateness    = time.Second // p99; the aim is far below
	poisonLimit    = 3           // failed deliveries allowed for a message
)

// expire publishes with TTLs in mixed order; every message must reach the delay target
// at its own time, whatever stands before it (TTL-5).
func (s *show) expire(ctx context.Context) error {
	s.say("   TTLs are between %v and %v, in no order; nobody consumes the queue they wait in", minTTL, maxTTL)
	consumer, err := s.client.Consume(ctx, client.ConsumeConfig{Queue: "delayed", Prefetch: prefetch})
	if err != nil {
		return err
	}
	defer consumer.Close()
	publisher, err := s.client.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	due := make([]time.Time, s.cfg.Expiring)
	failed := make(chan error, s.cfg.Expiring)
	for i := range due {
		ttl := minTTL + rand.N(maxTTL-minTTL).Truncate(time.Millisecond)
		due[i] = time.Now().Add(ttl)
		m := client.Message{RoutingKey: "waiting", Body: []byte(strconv.Itoa(i)), Properties: client.Properties{Expiration: client.TTL(ttl)}}
		err := publisher.PublishAsync(ctx, m, func(_ client.Result, err error) {
			if err != nil {
				failed <- err
			}
		})
		if err != nil {
			return errors.Join(err, publisher.Close(ctx))
		}
	}
	if err := publisher.Close(ctx); err != nil {
		return err
	}
	lateness := make([]time.Duration, 0, len(due))
	seen := make(map[int]bool, len(due))
	for len(lateness) < len(due) {
		late, err := s.arrival(ctx, consumer, due, seen)
		if err != nil {
			return fmt.Errorf("after %d of %d: %w", len(lateness), len(due), err)
		}
		lateness = append(lateness, late)
		select {
		case err := <-failed:
			return err
		default:
		}
	}
	slices.Sort(lateness)
	p50, p99 := lateness[len(lateness)/2], lateness[len(lateness)*99/100]
	s.figure("expired into the delay target, late by", fmt.Sprintf("%v p50, %v p99", p50.Round(100*time.Microsecond), p99.Round(100*time.Microsecond)))
	if p99 > maxLateness {
		return fmt.Errorf("messages expired late: %v at p99, at most %v was expected", p99, maxLateness)
	}
	s.say("   all %d arrived once and none early, late by %v at p99", len(lateness), p99.Round(time.Millisecond))
	return consumer.Flush(ctx)
}

// arrival takes one expired message and returns how late it is.
func (s *show) arrival(ctx context.Context, c *client.Consumer, due []time.Time, seen map[int]bool) (time.Duration, error) {
	d, err := c.Receive(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	i, err := strconv.Atoi(string(d.Body))
	if err != nil || i < 0 || i >= len(due) || seen[i] {
		return 0, fmt.Errorf("message %q in the delay target is unknown or was there before", d.Body)
	}
	seen[i] = true
	if err := checkDeath(workload.Deaths(d.Deaths), "waiting", "expired"); err != nil {
		return 0, err
	}
	late := now.Sub(due[i])
	if late < 0 {
		return 0, fmt.Errorf("message %d expired %v too early", i, -late)
	}
	return late, d.Ack()
}

// poison fails every delivery; the limit moves the messages out of the way (DEL-9).
func (s *show) poison(ctx context.Context) error {
	publisher, err := s.client.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	for i := range s.cfg.Poison {
		if _, err := publisher.Publish(ctx, client.Message{RoutingKey: "fragile", Body: []byte(strconv.Itoa(i))}); err != nil {
			return errors.Join(err, publisher.Close(ctx))
		}
	}
	if err := publisher.Close(ctx); err != nil {
		return err
	}
	failing, stop := context.WithCancel(ctx)
	defer stop()
	consumer, err := s.client.Consume(ctx, client.ConsumeConfig{Queue: "fragile", Prefetch: 10})
	if err != nil {
		return err
	}
	defer consumer.Close()
	deliveries := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			d, err := consumer.Receive(failing)
			if err == nil {
				deliveries++
				err = d.Requeue(true)
			}
			if err != nil {
				return // stop waiting; missing dead letters are reported next
			}
		}
	}()
	for range s.cfg.Poison {
		if err := s.takeDead(ctx, "fragile.dead", "fragile", "delivery_limit"); err != nil {
			return err
		}
	}
	stop()
	<-ended
	if want := s.cfg.Poison * (poisonLimit + 1); deliveries != want {
		return fmt.Errorf("%d deliveries of %d poison messages, want %d", deliveries, s.cfg.Poison, want)
	}
	s.say("   each was delivered %d times, then moved to fragile.dead with reason delivery_limit", poisonLimit+1)
	s.figure("poison messages dead-lettered", fmt.Sprintf("%d after %d deliveries", s.cfg.Poison, deliveries))
	return nil
}

// takeDead takes one dead letter and checks its death.
func (s *show) takeDead(ctx context.Context, queue, from, reason string) error {
	var taken *client.Taken
	err := s.wait(ctx, nil, func() (bool, error) {
		t, err := s.client.Get(ctx, client.GetRequest{Queue: queue, AutoAck: true})
		taken = t
		return t != nil, err
	})
	if err != nil {
		return fmt.Errorf("nothing more in %s: %w", queue, err)
	}
	return checkDeath(workload.Deaths(taken.Deaths), from, reason)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

const (
	beforeKill = 2 * time.Second
	afterKill  = 5 * time.Second
	killRate   = 1000 // messages per second of each publisher
)

// kill publishes to one queue through a surviving node and through the leader's, kills
// the leader with SIGKILL and checks that nothing is lost or doubled (PUB-6, PUB-7).
func (s *show) kill(ctx context.Context) error {
	q, err := s.client.GetQueue(ctx, client.QueueRef{Name: "survivor"})
	if err != nil {
		return err
	}
	leader := s.cluster.Node(q.Leader)
	if leader == nil {
		return fmt.Errorf("queue survivor names the unknown leader %q", q.Leader)
	}
	steady, err := client.Dial(ctx, client.Config{Addresses: s.cluster.Addresses(leader), FixedAddresses: true})
	if err != nil {
		return err
	}
	defer steady.Close()
	moving, err := client.Dial(ctx, client.Config{Addresses: []string{leader.Client}}) // the client learns the other addresses
	if err != nil {
		return err
	}
	defer moving.Close()
	s.say("   node %s leads the queue; one publisher is connected to it, another one to a node that will survive", leader.ID)

	record := history.New()
	consuming, stopConsuming := context.WithCancel(ctx)
	defer stopConsuming()
	ended := make(chan error, 1)
	consumer := &workload.Consumer{Client: steady, History: record, Queue: "survivor", Prefetch: prefetch}
	go func() { ended <- consumer.Run(consuming) }()

	publishing, stopPublishing := context.WithTimeout(ctx, beforeKill+afterKill)
	defer stopPublishing()
	var publishers sync.WaitGroup
	errs := make([]error, 3)
	for i, c := range []*client.Client{steady, moving} {
		p := &workload.Publisher{Client: c, History: record, Class: killClasses()[i], Queue: "survivor", Size: bodyBytes, Rate: killRate}
		publishers.Go(func() { errs[i] = p.Run(publishing, answerTimeout) })
	}
	if err := wait.For(ctx, beforeKill); err != nil {
		return err
	}
	record.Add(history.Event{Kind: history.Fault, Nodes: []string{leader.ID}, Note: "kill of leader"})
	errs[2] = leader.Kill()
	s.say("   SIGKILL to node %s while both publish", leader.ID)
	publishers.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := s.wait(ctx, ended, func() (bool, error) {
		q, err := steady.GetQueue(ctx, client.QueueRef{Name: "survivor"})
		return err == nil && q.Stats != nil && q.Stats.Messages == 0, err
	}); err != nil {
		return err
	}
	stopConsuming()
	if err := <-ended; err != nil {
		return err
	}
	record.Add(history.Event{Kind: history.Drained, Queue: "survivor"})
	if err := s.judge(record, 0); err != nil {
		return err
	}
	return errors.Join(s.recoveries(record), s.bringBack(ctx, leader))
}

// killClasses returns the classes of the publishers, in the order of their clients.
func killClasses() [2]string {
	return [2]string{"publisher on a surviving node", "publisher on the killed node"}
}

// recoveries reports the time to the first confirm after the kill for each publisher.
func (s *show) recoveries(record *history.History) error {
	for _, who := range killClasses() {
		var own []history.Event
		for _, e := range record.Events() {
			if e.Client == who || e.Kind == history.Fault {
				own = append(own, e)
			}
		}
		r := check.Check(own)
		if len(r.Recoveries) != 1 || r.Recoveries[0].Confirm < 0 {
			return fmt.Errorf("%s got no confirm after the kill", who)
		}
		took, pause := r.Recoveries[0].Confirm.Round(time.Millisecond), r.Recoveries[0].Pause.Round(time.Millisecond)
		s.say("   %s: first confirm %v after the kill, longest pause %v", who, took, pause)
		s.figure("first confirm after the kill, "+who, took.String())
		s.figure("longest pause after the kill, "+who, pause.String())
	}
	return nil
}

// bringBack restarts the killed node, which catches up by itself.
func (s *show) bringBack(ctx context.Context, n *chaos.Node) error {
	begin := time.Now()
	if err := n.Start(); err != nil {
		return err
	}
	if err := n.WaitReady(ctx); err != nil {
		return err
	}
	took := time.Since(begin).Round(time.Millisecond)
	s.say("   node %s is started again and ready after %v", n.ID, took)
	s.figure("killed node ready again after", took.String())
	return nil
}

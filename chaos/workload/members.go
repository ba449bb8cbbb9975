package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Members is the workload of an operator who changes members while clients work: they are rebuilt, taken out and
// added again, moved to other nodes, and leaders are transferred and spread.
func Members() Kind {
	return Kind{
		Name: "members", Protocols: []string{overGRPC, overAMQP}, Rate: 60,
		Does: "queues whose members are replaced, taken out and added, and whose leaders are moved",
		New:  func(w *World) Workload { return &members{base: base{World: w}} },
	}
}

const (
	changeEvery   = 700 * time.Millisecond // about
	changeTimeout = 20 * time.Second       // of one change; it may wait for a node
	membersWanted = 3                      // of a queue at the end
)

// members is the workload of Members.
type members struct {
	base
	queues []string
}

// Prepare implements Workload.
func (m *members) Prepare(ctx context.Context) error {
	m.queues = []string{m.Queue("q1"), m.Queue("q2")}
	m.drains = m.queues
	for i, q := range m.queues {
		for n := range 2 {
			// While a member is rebuilt, the queue has two that vote, and one fault stops it.
			m.players.publisher(m.class(2*i+n), &Publisher{Queue: q, Apart: "of changing members"})
		}
		m.players.consumer(m.class(i), &Consumer{Queue: q})
		if err := m.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Ordered: true}); err != nil {
			return err
		}
	}
	m.players.other(m.operate)
	return nil
}

// operate changes members until publishing ends, and leaves queues with all that they had. What is
// refused, or waits for too long, is no fault: nodes may be down.
func (m *members) operate(ctx, publishing context.Context) error {
	random := m.random(0)
	for n := 0; wait.For(publishing, changeEvery/2+time.Duration(random.Int64N(int64(changeEvery)))) == nil; n++ {
		if what, err := m.changeOne(ctx, m.queues[n%len(m.queues)], random); err != nil {
			m.Log("members: %s: %v", what, err)
		}
	}
	restoring, cancel := context.WithTimeout(ctx, m.Settle)
	defer cancel()
	return m.restore(restoring)
}

// changeOne makes a change of one queue, or undoes what is left of an earlier one.
func (m *members) changeOne(ctx context.Context, queue string, random *rand.Rand) (what string, err error) {
	m.Changes.Lock()
	defer m.Changes.Unlock()
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if m.losesDisks() { // the fault waits for what an earlier change left
		return "restore " + queue, m.grow(ctx, queue)
	}
	return m.change(ctx, queue, random)
}

// losesDisks reports whether a fault lasts that takes a node's data away: then all other members
// are needed where they are.
func (m *members) losesDisks() bool {
	return slices.ContainsFunc(m.History.Lasting(), func(e history.Event) bool {
		kind, _, _ := strings.Cut(e.Note, " ")
		return strings.HasPrefix(kind, "flip-") || slices.Contains([]string{"wiped", "bit-flip", "disk-fails", "power-cut", "build", "scale", "recover"}, kind)
	})
}

// change makes one change of a queue, and waits until it is done.
func (m *members) change(ctx context.Context, queue string, random *rand.Rand) (what string, err error) {
	q, err := m.Client.GetQueue(ctx, client.QueueRef{VHost: m.VHost, Name: queue})
	if err != nil || len(q.Members) == 0 {
		return "looking at " + queue, err
	}
	one := q.Members[random.IntN(len(q.Members))]
	var spare []string
	for _, n := range m.Cluster.Nodes() {
		if !slices.Contains(q.Members, n.ID) {
			spare = append(spare, n.ID)
		}
	}
	switch random.IntN(4) {
	case 0:
		return "transfer to " + one, m.Client.TransferLeadership(ctx, client.TransferLeadershipRequest{VHost: m.VHost, Queue: queue, Node: one})
	case 1:
		return "rebalance", m.await(ctx)(m.Client.RebalanceQueues(ctx, client.RebalanceQueuesRequest{Queues: client.QueueFilter{VHost: m.VHost, Pattern: m.Prefix + ".*"}}))
	case 2:
		to := one // it is rebuilt from the others
		if len(spare) > 0 {
			to = spare[random.IntN(len(spare))]
		}
		return "replace " + one + " by " + to, m.await(ctx)(m.Client.ReplaceMember(ctx, client.ReplaceMemberRequest{VHost: m.VHost, Queue: queue, From: one, To: to}))
	default:
		if len(q.Members) < membersWanted { // an earlier change was not completed
			return "restore " + queue, m.grow(ctx, queue)
		}
		if err := m.await(ctx)(m.Client.RemoveMember(ctx, client.RemoveMemberRequest{VHost: m.VHost, Queue: queue, Node: one})); err != nil {
			return "remove " + one, err
		}
		return "add " + one, m.await(ctx)(m.Client.AddMember(ctx, client.AddMemberRequest{VHost: m.VHost, Queue: queue, Node: one}))
	}
}

// await returns what waits for an operation that was started.
func (m *members) await(ctx context.Context) func(client.StartedOperation, error) error {
	return func(o client.StartedOperation, err error) error {
		if err != nil || o.Operation == nil {
			return err
		}
		done, err := m.Client.WatchOperation(ctx, o.Operation.ID, nil)
		if err == nil && done.Error != "" {
			err = errors.New(done.Error)
		}
		return err
	}
}

// grow adds members on nodes that have none, until there are as many as wanted.
func (m *members) grow(ctx context.Context, queue string) error {
	q, err := m.Client.GetQueue(ctx, client.QueueRef{VHost: m.VHost, Name: queue})
	if err != nil {
		return err
	}
	for _, n := range m.Cluster.Nodes() {
		if len(q.Members) >= membersWanted {
			break
		}
		if slices.Contains(q.Members, n.ID) {
			continue
		}
		if err := m.await(ctx)(m.Client.AddMember(ctx, client.AddMemberRequest{VHost: m.VHost, Queue: queue, Node: n.ID})); err != nil {
			return err
		}
		q.Members = append(q.Members, n.ID)
	}
	return nil
}

// restore gives each queue the members that it had at first.
func (m *members) restore(ctx context.Context) error {
	for _, queue := range m.queues {
		for {
			q, err := m.Client.GetQueue(ctx, client.QueueRef{VHost: m.VHost, Name: queue})
			if err == nil && len(q.Members) >= min(membersWanted, len(m.Cluster.Nodes())) {
				break
			}
			if err == nil {
				err = m.grow(ctx, queue)
			}
			if wait.For(ctx, redialEvery) != nil {
				return fmt.Errorf("queue %q has %d members in the end, want %d: %w", queue, len(q.Members), membersWanted, errors.Join(err, ctx.Err()))
			}
		}
	}
	return nil
}

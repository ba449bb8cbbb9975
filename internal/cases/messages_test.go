package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
)

// choice is a job on the messages of a queue that the filter chooses.
func (k *kase) choice(queue string, f client.Filter) client.MessageJob {
	k.Helper()
	return client.MessageJob{Queue: queue, Filter: f}
}

// finish waits for the end of an operation that was started.
func (k *kase) finish(r client.StartedOperation, err error) client.Operation {
	k.Helper()
	k.must(err)
	end, err := k.client.WatchOperation(k.ctx, r.Operation.ID, func(client.Operation) {})
	k.must(err)
	if end.State != client.OperationDone {
		k.Fatalf("operation %s ended as %s: %s", end.Kind, end.State, end.Error)
	}
	return end
}

// peek returns all messages of a part, by pages of a few.
func (k *kase) peek(queue string, part client.QueuePart, f client.Filter) []client.Peeked {
	k.Helper()
	return k.peekBy(3, queue, part, f)
}

func (k *kase) peekBy(size uint32, queue string, part client.QueuePart, f client.Filter) []client.Peeked {
	k.Helper()
	var all []client.Peeked
	r := client.PeekRequest{Queue: queue, Part: part, Filter: f, Limit: size, WithBodies: true}
	for {
		page, err := k.client.Peek(k.ctx, r)
		k.must(err)
		all = append(all, page.Messages...)
		if r.PageToken = page.Next; page.Next == "" {
			return all
		}
	}
}

func peekedBodies(ps []client.Peeked) string {
	var out []string
	for _, p := range ps {
		out = append(out, string(p.Body))
	}
	return strings.Join(out, " ")
}

const (
	inReady     = client.PartReady
	inUnsettled = client.PartUnsettled
	inBacklog   = client.PartBacklog
)

// G-13.
func TestT320(t *testing.T) {
	k := begin(t, "peek shows messages and changes nothing")
	q := k.queue("q", dlx(k.name("nowhere"), alo()))
	for i := range 10 {
		_, err := k.try(q, fmt.Sprint(i), func(m *client.Message) {
			m.MessageID, m.Headers = fmt.Sprint("id", i), client.Table{"even": i%2 == 0}
			if i == 7 {
				m.Priority = client.Priority(9)
			}
		})
		k.must(err)
	}
	k.settle(k.get(q, false), reject) // 7 comes first
	k.settle(k.get(q, false), nackRequeue)
	taken := k.get(q, false)
	k.settle(k.get(q, false), fail)
	for range 2 { // the second time shows that the first has changed nothing
		ready := k.peek(q, inReady, client.Filter{})
		k.same("ready, by delivery", peekedBodies(ready), "1 2 3 4 5 6 8 9")
		k.same("counts", fmt.Sprint(ready[0].AcquiredCount, ready[0].DeliveryCount, ready[1].AcquiredCount), "1 1 0")
		k.same("by id", peekedBodies(k.peek(q, inReady, client.Filter{MessageIDs: []string{"id4", "id9"}})), "4 9")
		k.same("by header", peekedBodies(k.peek(q, inReady, client.Filter{Headers: client.Table{"even": true}})), "2 4 6 8")
		k.same("by number", peekedBodies(k.peek(q, inReady, client.Filter{Numbers: []uint64{ready[3].State.Number}})), "4")
		unsettled := k.peek(q, inUnsettled, client.Filter{})
		k.same("with a client", peekedBodies(unsettled)+" "+fmt.Sprint(unsettled[0].State.ConsumerNode != ""), "0 true")
		backlog := k.peek(q, inBacklog, client.Filter{})
		k.same("on their way", peekedBodies(backlog)+" "+backlog[0].State.Reason, "7 rejected")
	}
	second, err := k.client.Peek(k.ctx, client.PeekRequest{Queue: q, Skip: 2, Limit: 2})
	k.must(err)
	if page := second.Messages; len(page) != 2 || page[0].MessageID != "id3" || len(page[0].Body) != 0 || page[0].State.BodyBytes != 1 {
		k.Errorf("a page without bodies from the third message on: %+v", page)
	}
	k.settle(taken, ack)
	_, err = k.client.Peek(k.ctx, client.PeekRequest{Queue: k.name("none")})
	k.class("a queue that does not exist", err, client.NotFound)
	_, err = k.client.Peek(k.ctx, client.PeekRequest{Queue: q, PageToken: "%"})
	k.class("a token that no page gave", err, client.PreconditionFailed)
}

// G-13.
func TestT321(t *testing.T) {
	k := begin(t, "chosen messages are deleted, and nothing dead-letters them")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d))
	for i := range 8 {
		_, err := k.try(q, fmt.Sprint(i), headers(client.Table{"even": i%2 == 0}))
		k.must(err)
	}
	job := k.choice(q, client.Filter{Headers: client.Table{"even": true}})
	job.DryRun = true
	r, err := k.client.DeleteMessages(k.ctx, job)
	k.must(err)
	k.same("a dry run counts and samples", fmt.Sprint(r.PlanTotal, len(r.Plan), r.Operation == nil), "4 4 true")
	k.ready(q, 8)
	job.DryRun, job.Limit = false, 3
	k.finish(k.client.DeleteMessages(k.ctx, job))
	k.same("left", peekedBodies(k.peek(q, inReady, client.Filter{})), "1 3 5 6 7")
	s := k.stats(q)
	k.same("dead letters", fmt.Sprint(s.MessagesDLX, s.DeadLettered, k.stats(d).Messages), "0 map[] 0")
}

// G-13.
func TestT322(t *testing.T) {
	k := begin(t, "moved messages arrive once, in order, without a death")
	q, to := k.queue("q", args{"x-max-length": 1000}), k.queue("to", nil)
	k.publish(q, numbers(1, 30)...)
	k.settle(k.get(q, false), fail)
	_, err := k.try(q, "31", expires("3600000"), headers(client.Table{"CC": []any{k.name("cc")}}))
	k.must(err)
	r, err := k.client.MoveMessages(k.ctx, client.MoveMessagesRequest{Job: k.choice(q, client.Filter{}), ToQueue: to})
	end := k.finish(r, err)
	if end.Phase == "" || end.Done != end.Total {
		k.Errorf("the operation ended at %d of %d in %q", end.Done, end.Total, end.Phase)
	}
	arrived := k.peek(to, inReady, client.Filter{})
	k.same("arrived", peekedBodies(arrived), strings.Join(numbers(1, 31), " "))
	for _, p := range arrived {
		if len(p.Deaths) > 0 || p.DeliveryCount+p.AcquiredCount > 0 || p.RoutingKey != q {
			k.Fatalf("%s arrived as %+v", p.Body, p.Received)
		}
	}
	last := arrived[30]
	k.same("as it was", fmt.Sprint(last.Expiration, last.Headers["CC"], !last.State.Expires.IsZero()), fmt.Sprint("3600000[", k.name("cc"), "] true"))
	k.same("left", k.stats(q).Messages, 0)
	_, err = k.client.MoveMessages(k.ctx, client.MoveMessagesRequest{Job: k.choice(to, client.Filter{}), ToQueue: to})
	k.class("to the queue itself", err, client.PreconditionFailed)
	_, err = k.client.MoveMessages(k.ctx, client.MoveMessagesRequest{Job: k.choice(to, client.Filter{}), ToQueue: k.name("none")})
	k.class("to a queue that does not exist", err, client.NotFound)
	_, err = k.client.MoveMessages(k.ctx, client.MoveMessagesRequest{Job: k.choice(to, client.Filter{})})
	k.class("to nowhere", err, client.PreconditionFailed)
}

// G-13.
func TestT323(t *testing.T) {
	k := begin(t, "messages are moved through an exchange, to all that it routes to")
	x := k.exchange("x", "topic", client.Exchange{})
	q, a, b := k.queue("q", nil), k.queue("a", nil), k.queue("b", nil)
	k.bind(x, a, "moved.#")
	k.bind(x, b, "*.now")
	k.publish(q, "m", "n")
	key := "moved.now"
	k.finish(k.client.MoveMessages(k.ctx, client.MoveMessagesRequest{
		Job: k.choice(q, client.Filter{}), ToExchange: &x, RoutingKey: &key,
	}))
	for _, to := range []string{a, b} {
		got := k.peek(to, inReady, client.Filter{})
		k.same(to, peekedBodies(got)+" "+got[0].Exchange+" "+got[0].RoutingKey, "m n "+x+" "+key)
	}
	// By a key that is routed nowhere nothing is moved.
	k.publish(q, "o")
	nobody := "nobody"
	toNobody := client.MoveMessagesRequest{Job: k.choice(q, client.Filter{}), ToExchange: &x, RoutingKey: &nobody}
	_, err := k.client.MoveMessages(k.ctx, toNobody)
	k.class("by a key that is routed nowhere", err, client.PreconditionFailed)
	k.ready(q, 1)
	k.bind(x, b, nobody)
	k.finish(k.client.MoveMessages(k.ctx, toNobody))
	k.ready(b, 3)
	// With keys of their own those stay that are routed nowhere.
	k.bind(x, q, "own")
	_, err = k.try("own", "p", via(x))
	k.must(err)
	k.publish(q, "r")
	k.bind(x, b, "own")
	k.must(k.client.Unbind(k.ctx, client.Binding{Source: x, Destination: q, RoutingKey: "own"}))
	end := k.finish(k.client.MoveMessages(k.ctx, client.MoveMessagesRequest{Job: k.choice(q, client.Filter{}), ToExchange: &x}))
	k.same("what stays", end.Detail, fmt.Sprintf("1 stay: exchange %q routes them to no queue", x))
	k.same("left", peekedBodies(k.peek(q, inReady, client.Filter{})), "r")
	k.same("in the backlog", k.stats(q).MessagesDLX, 0)
	k.ready(b, 4)
}

// G-13.
func TestT324(t *testing.T) {
	k := begin(t, "dead letters are driven back to where they died first")
	x := k.exchange("x", "fanout", client.Exchange{})
	dead, gone := k.queue("dead", nil), k.queue("gone", dlx(k.name("dead")))
	q1, q2 := k.queue("q1", dlx(dead)), k.queue("q2", dlx(dead))
	k.bind(x, q2, "")
	for _, q := range []string{q1, gone} {
		k.publish(q, "of "+strings.TrimPrefix(q, k.name("")))
		k.settle(k.get(q, false), reject)
	}
	_, err := k.try("key", "of q2", via(x))
	k.must(err)
	k.settle(k.get(q2, false), reject)
	k.publish(dead, "never died")
	k.ready(dead, 4)
	_, err = k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: gone})
	k.must(err)
	job := k.choice(dead, client.Filter{})
	job.DryRun = true
	r, err := k.client.RedriveMessages(k.ctx, client.RedriveMessagesRequest{Job: job})
	k.must(err)
	if r.PlanTotal != 2 || !slices.ContainsFunc(r.Plan, func(line string) bool { return strings.HasSuffix(line, fmt.Sprintf("to queue %q", q1)) }) {
		k.Errorf("the plan is %q", r.Plan)
	}
	job.DryRun = false
	k.finish(k.client.RedriveMessages(k.ctx, client.RedriveMessagesRequest{Job: job}))
	k.same("left", peekedBodies(k.peek(dead, inReady, client.Filter{})), "of gone never died")
	k.ready(q1, 1)
	m := k.get(q2, false)
	k.same("as before its death", string(m.Body)+" "+m.Exchange+" "+m.RoutingKey, "of q2 "+x+" key")
	k.same("its deaths", fmt.Sprint(len(m.Deaths), " ", death(&m.Received, 0), m.DeliveryCount, m.AcquiredCount), "1 "+q2+" rejected 10 0")
	k.settle(m, reject)
	// Through the exchange all that is bound to it gets a copy.
	k.bind(x, q1, "")
	k.ready(dead, 3)
	k.finish(k.client.RedriveMessages(k.ctx, client.RedriveMessagesRequest{
		Job: k.choice(dead, client.Filter{DeathExchange: x}), ToExchange: true,
	}))
	k.ready(q1, 2)
	again := k.get(q2, true)
	k.same("its deaths", death(&again.Received, 0), q2+" rejected 2")
}

// G-13.
func TestT325(t *testing.T) {
	k := begin(t, "a move keeps to its rate and can be cancelled")
	q, to := k.queue("q", nil), k.queue("to", nil)
	k.publish(q, numbers(1, 60)...)
	job := k.choice(q, client.Filter{})
	job.Rate = 1
	r, err := k.client.MoveMessages(k.ctx, client.MoveMessagesRequest{Job: job, ToQueue: to})
	k.must(err)
	id := r.Operation.ID
	_, err = k.client.MoveMessages(k.ctx, client.MoveMessagesRequest{Job: job, ToQueue: to})
	_ = err // refused if it reaches the same node
	k.ready(to, 1)
	_, err = k.client.CancelOperation(k.ctx, id)
	k.must(err)
	end, err := k.client.WatchOperation(k.ctx, id, func(client.Operation) {})
	k.must(err)
	k.same("state", end.State, client.OperationCancelled)
	k.eventually("what was taken has arrived", func() error {
		if n := k.stats(q).MessagesDLX; n > 0 {
			return fmt.Errorf("%d are on their way", n)
		}
		return nil
	})
	left, moved := k.stats(q).MessagesReady, k.stats(to).MessagesReady
	if left+moved != 60 || left == 0 || moved == 0 {
		k.Errorf("%d messages are left, %d have arrived, there were 60", left, moved)
	}
}

// G-20.
func TestT326(t *testing.T) {
	k := begin(t, "a route is explained: queues, bindings, policies, near misses")
	alt := k.exchange("alt", "fanout", client.Exchange{})
	x := k.exchange("x", "topic", client.Exchange{Arguments: args{"alternate-exchange": alt}})
	inner := k.exchange("inner", "headers", client.Exchange{})
	a, b, c := k.queue("a", args{"x-max-length": 100}), k.queue("b", nil), k.queue("c", nil)
	k.bind(x, inner, "order.#", toExchange)
	k.bind(inner, a, "", func(b *client.Binding) { b.Arguments = args{"kind": "new"} })
	k.bind(inner, b, "", func(b *client.Binding) { b.Arguments = args{"kind": "old"} })
	k.bind(alt, c, "")
	_, err := k.client.PutPolicy(k.ctx, client.Policy{Name: k.name("p"), Pattern: "^" + a + "$", Definition: client.Table{"max-length": 7}})
	k.must(err)
	r, err := k.client.ExplainRouting(k.ctx, client.ExplainRoutingRequest{Exchange: x, RoutingKeys: []string{"order.eu"}, Headers: client.Table{"kind": "new"}})
	k.must(err)
	if len(r.Queues) != 1 || r.Queues[0].Name != a || len(r.Queues[0].Path) != 2 {
		k.Fatalf("routed to %v", r.Queues)
	}
	k.same("policy", fmt.Sprint(r.Queues[0].Policy, " ", r.Queues[0].Settings[0].Value, " ", r.Queues[0].Settings[0].Source),
		fmt.Sprintf("%s 7 policy %q", k.name("p"), k.name("p")))
	k.same("why not b", r.Steps[1].Misses[0].Why, `header "kind" is "new", not "old"`)
	r, err = k.client.ExplainRouting(k.ctx, client.ExplainRoutingRequest{Exchange: x, RoutingKeys: []string{"bill"}})
	k.must(err)
	k.same("by the alternate exchange", fmt.Sprint(len(r.Queues), r.Queues[0].Name, " ", r.Steps[1].Via),
		fmt.Sprintf("1%s alternate exchange of %q", c, x))
	_, err = k.client.ExplainRouting(k.ctx, client.ExplainRoutingRequest{Exchange: k.name("none")})
	k.class("an exchange that does not exist", err, client.NotFound)
}

// G-20, DL-2, DL-26, DL-40.
func TestT327(t *testing.T) {
	k := begin(t, "a dead letter is explained: target, cycle, what is missing, which setting won")
	x := k.name("x")
	q := k.queue("q", args{"x-dead-letter-exchange": x, "x-dead-letter-strategy": "at-least-once"})
	ask := func(r client.ExplainDeadLetterRequest) client.DeadLetterExplained {
		k.Helper()
		r.Queue = q
		out, err := k.client.ExplainDeadLetter(k.ctx, r)
		k.must(err)
		return out
	}
	r := ask(client.ExplainDeadLetterRequest{})
	k.same("without its exchange", fmt.Sprint(r.Strategy, " ", r.Cause, len(r.Warnings)), "at-most-once no_exchange1")
	k.exchange("x", "direct", client.Exchange{})
	r = ask(client.ExplainDeadLetterRequest{})
	k.same("without binding", r.Cause+" "+r.Settings[0].Source, "unroutable argument")
	k.bind(x, q, q)
	d := k.queue("d", nil)
	k.bind(x, d, "other")
	r = ask(client.ExplainDeadLetterRequest{Reason: "expired"})
	k.same("round", fmt.Sprint(r.Cause, r.Cyclic), fmt.Sprint("cycle", []string{q}))
	r = ask(client.ExplainDeadLetterRequest{Reason: "rejected"})
	k.same("rejected", r.Targets[0].Name+" "+r.Cause, q+" none")
	_, err := k.client.PutPolicy(k.ctx, client.Policy{Name: k.name("p"), Pattern: "^" + q + "$", Definition: client.Table{"dead-letter-routing-key": "other"}})
	k.must(err)
	k.publish(q, "m")
	number := k.peek(q, inReady, client.Filter{})[0].State.Number
	k.eventually("the policy counts", func() error {
		if r = ask(client.ExplainDeadLetterRequest{Number: number, Reason: "maxlen"}); len(r.Targets) != 1 || r.Targets[0].Name != d {
			return fmt.Errorf("targets %v", r.Targets)
		}
		return nil
	})
	var won []string
	for _, s := range r.Settings {
		won = append(won, s.Argument+": "+s.Source)
	}
	slices.Sort(won) // a client's table may have any order
	k.same("who won", strings.Join(won, "; "),
		fmt.Sprintf("x-dead-letter-exchange: argument; x-dead-letter-routing-key: policy %q; x-dead-letter-strategy: argument", k.name("p")))
	_, err = k.client.ExplainDeadLetter(k.ctx, client.ExplainDeadLetterRequest{Queue: q, Number: 12345})
	k.class("a number that is not there", err, client.NotFound)
	_, err = k.client.ExplainDeadLetter(k.ctx, client.ExplainDeadLetterRequest{Queue: q, Reason: "bored"})
	k.class("a reason that does not exist", err, client.PreconditionFailed)
}

// G-13, DL-25: the messages are in the source's and the targets' replicated state, whatever
// node is lost.
func TestT328(t *testing.T) {
	k := alone(t, "dead letters are driven back once each, though nodes are killed meanwhile")
	const n = 3000
	dead, q := k.queue("dead", nil), k.name("q")
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Arguments: dlx(dead)})
	k.must(err)
	p, err := k.client.Publisher(client.PublisherConfig{})
	k.must(err)
	for _, body := range numbers(1, n) {
		k.must(p.PublishAsync(k.ctx, client.Message{RoutingKey: q, Body: []byte(body)}, func(client.Result, error) {}))
	}
	k.must(p.Close(k.ctx))
	s := k.consume(q, 500)
	for range n {
		k.must(k.receive(s, 1)[0].Discard())
	}
	s.Close()
	k.ready(dead, n)
	lose := func(queue string) {
		state, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: queue})
		k.must(err)
		for _, node := range k.cluster.Nodes {
			if node.ID == state.Leader {
				k.must(node.Kill())
			}
		}
	}
	victims := []string{dead, q, dead}
	for done := false; !done; {
		job := k.choice(dead, client.Filter{})
		job.Rate = 2000
		r, err := k.client.RedriveMessages(k.ctx, client.RedriveMessagesRequest{Job: job})
		if err != nil {
			continue // no leader yet
		}
		if len(victims) > 0 {
			lose(victims[0])
			victims = victims[1:]
			k.must(k.cluster.Start(k.ctx))
		}
		end, err := k.client.WatchOperation(k.ctx, r.Operation.ID, func(client.Operation) {})
		k.must(k.ctx.Err())
		// It may have ended with its node, or because there was no leader: then it is started again.
		done = err == nil && end.State == client.OperationDone && len(victims) == 0
	}
	seen := make(map[string]int, n)
	for _, m := range k.peekBy(1000, q, inReady, client.Filter{}) {
		seen[string(m.Body)]++
	}
	for _, body := range numbers(1, n) {
		if seen[body] != 1 {
			k.Errorf("message %s is there %d times", body, seen[body])
		}
	}
	left := k.stats(dead)
	k.same("left", fmt.Sprint(len(seen), left.Messages), fmt.Sprint(n, 0))
}

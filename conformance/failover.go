package conformance

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/quorate/quorate/chaos"
)

// Failover kills the node that leads a queue while a client publishes to it and another one
// consumes it, both connected to other nodes: their connections stay open, each message is
// confirmed, and each arrives once and in order (RE-5, DEL-12, PUB-6). The node runs again at the
// end.
func Failover(ctx context.Context, k Kind, q *Quorate, messages int) (err error) {
	line, err := k.Install(ctx)
	if err != nil {
		return err
	}
	queue := k.Name + ".failover"
	var p, c *player
	for _, each := range []**player{&p, &c} {
		client, err := StartClient(ctx, k.Name, line)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		*each = &player{client: client, broker: q, channels: map[string]bool{}}
	}
	// No client is connected to the leader's node: clients on it move to the others.
	if err := must(p, "queue.declare", map[string]any{"q": queue, "durable": true, "args": map[string]any{"x-queue-type": "quorum"}}); err != nil {
		return err
	}
	leader, err := q.Leader(ctx, queue)
	if err != nil {
		return err
	}
	q.Only = nil
	for _, n := range q.Cluster.Nodes {
		if n != leader {
			q.Only = append(q.Only, n)
		}
	}
	defer func() {
		q.Only = nil
		err = errors.Join(err, q.Cluster.Start(ctx))
	}()
	return failover(p, c, queue, leader, messages)
}

// failover floods the queue, kills its leader after a quarter of the messages, and demands each
// message once and in order, with no redelivery: publisher and consumer are on other nodes and must
// not notice the failure.
func failover(p, c *player, queue string, leader *chaos.Node, messages int) error {
	p.channels, c.channels = map[string]bool{}, map[string]bool{}
	of := func(more map[string]any) map[string]any { // on connections of their own
		out := map[string]any{"conn": "f", "ch": "1", "tag": "t"}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	if err := errors.Join(
		must(c, "qos", of(map[string]any{"count": 100})),
		must(c, "consume", of(map[string]any{"q": queue})),
		must(p, "confirm", of(nil)),
	); err != nil {
		return err
	}
	flooded := make(chan error, 1)
	go func() {
		a, err := p.call("flood", of(map[string]any{"key": queue, "n": messages}))
		if err == nil && a.Acked != messages {
			err = fmt.Errorf("%d of %d messages were confirmed: %v", a.Acked, messages, p.lines("flood", a, nil))
		}
		flooded <- err
	}()
	next := 0
	collect := func(n int) error {
		a, err := c.call("collect", of(map[string]any{"n": n}))
		if err != nil || len(a.Got) != n {
			return errors.Join(fmt.Errorf("%d of %d messages came: %v", next+len(a.Got), messages, c.lines("collect", a, nil)), err)
		}
		for _, m := range a.Got {
			if m.Body != strconv.Itoa(next) || m.Redelivered {
				return fmt.Errorf("message %s, redelivered: %v, came in place of %d", m.Body, m.Redelivered, next)
			}
			next++
		}
		return nil
	}
	if err := collect(messages / 4); err != nil {
		return errors.Join(err, <-flooded)
	}
	if err := leader.Kill(); err != nil {
		return errors.Join(err, <-flooded)
	}
	if err := errors.Join(collect(messages-next), <-flooded); err != nil {
		return err
	}
	for _, x := range []*player{p, c} {
		a, err := x.call("state", of(nil))
		if err != nil || a.State != "open" {
			return errors.Join(fmt.Errorf("a connection is %q at the end", a.State), err)
		}
	}
	lines, err := c.await(map[string]any{"q": queue, "ready": number(0)})
	if err != nil || lines[0] != "ok" {
		return errors.Join(fmt.Errorf("more is left: %v", lines), err)
	}
	return nil
}

// must carries out a command without a result of interest.
func must(p *player, do string, args map[string]any) error {
	if args["conn"] == nil {
		args["conn"], args["ch"] = "a", "1"
	}
	a, err := p.call(do, args)
	if err == nil && (a.Fault != nil || a.Broken != "") {
		err = fmt.Errorf("%s: %v", do, p.lines(do, a, nil))
	}
	return err
}

package workload

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Churn is the workload of what is declared and deleted all the time: queues, bindings and policies
// come and go beside those that clients publish through, by exchanges of all types. What a name
// stands for is a register; and what is declared again is new.
func Churn() Kind {
	return Kind{
		Name: "churn", Protocols: []string{overGRPC, overAMQP}, Rate: 40,
		Does: "queues, bindings and policies that come and go, and fan-out through exchanges of all types",
		New:  func(w *World) Workload { return &churn{base: base{World: w}} },
	}
}

const (
	churnEvery   = 250 * time.Millisecond // about, between two changes of one client
	churnTimeout = 10 * time.Second       // of one change
	cycleSize    = 5                      // messages for a queue that is deleted
	cycleStay    = 300 * time.Millisecond // of its consumer
)

// churn is the workload of Churn.
type churn struct {
	base
	routes []route
}

// route is a way to publish, and the queues that it leads to.
type route struct {
	exchange, key string
	headers       map[string]any
	queues        []string
	chooses       bool // one of its bindings for a message (EX-14): more of them would change where it leads to
}

// Prepare implements Workload.
func (c *churn) Prepare(ctx context.Context) error {
	c.drains = []string{c.Queue("a"), c.Queue("b")}
	line := c.Queue("line") // published to and consumed from directly: a FIFO
	for n, q := range c.drains {
		if err := c.declare(ctx, q, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1}); err != nil {
			return err
		}
		c.players.consumer(c.class(n), &Consumer{Queue: q})
	}
	if err := c.topology(ctx); err != nil {
		return err
	}
	if err := c.declare(ctx, line, client.Table{"x-delivery-limit": -1}, history.Queue{DeliveryLimit: -1, Ordered: true}); err != nil {
		return err
	}
	c.drains = append(c.drains, line)
	c.players.consumer(c.class(3), &Consumer{Queue: line})
	for n := range 2 {
		c.players.publisher(c.class(2+n), &Publisher{Queue: line})
	}
	for n := range 2 {
		c.players.publisher(c.class(n), &Publisher{Queue: c.drains[0], post: func(id uint64) post {
			r := c.routes[id%uint64(len(c.routes))]
			return post{exchange: r.exchange, key: r.key, headers: r.headers, queues: r.queues}
		}})
	}
	c.players.other(c.changeBindings)
	c.players.other(c.cycle)
	for n, node := range c.Cluster.Nodes() {
		for who := range 2 {
			c.players.other(func(ctx, publishing context.Context) error { return c.rename(ctx, publishing, node.ID, 2*n+who) })
		}
	}
	return nil
}

// topology declares an exchange of each type, and bindings that stay.
func (c *churn) topology(ctx context.Context) error {
	a, b := c.drains[0], c.drains[1]
	fan, direct, topic, headers, via := c.Queue("fanout"), c.Queue("direct"), c.Queue("topic"), c.Queue("headers"), c.Queue("via")
	for name, kind := range map[string]string{fan: "fanout", direct: "direct", topic: "topic", headers: "headers", via: "direct"} {
		if _, err := c.Client.DeclareExchange(ctx, client.Exchange{VHost: c.VHost, Name: name, Type: kind}); err != nil {
			return err
		}
	}
	for _, x := range []client.Binding{
		{Source: fan, Destination: a},
		{Source: fan, Destination: b},
		{Source: direct, Destination: a, RoutingKey: "one"},
		{Source: topic, Destination: b, RoutingKey: "x.*"},
		{Source: headers, Destination: a, Arguments: client.Table{"x-match": "all", "kind": "k"}},
		{Source: via, Destination: fan, ToExchange: true, RoutingKey: "all"},
	} {
		x.VHost = c.VHost
		if err := c.Client.Bind(ctx, x); err != nil {
			return err
		}
	}
	c.routes = []route{
		{exchange: fan, queues: []string{a, b}},
		{exchange: direct, key: "one", queues: []string{a}},
		{exchange: topic, key: "x.y", queues: []string{b}},
		{exchange: headers, headers: map[string]any{"kind": "k"}, queues: []string{a}},
		{exchange: via, key: "all", queues: []string{a, b}},
		{key: b, queues: []string{b}},
	}
	return c.choosing(ctx)
}

// choosing declares the exchanges that choose one of their bindings (EX-14). Which one only
// x-modulus-hash lets others know; of the next two, each binding leads to the same queue by another
// exchange, so that a message comes there once, whatever is chosen. That of x-local-random has one
// queue, and what is published at another node than its leader's goes nowhere, by an alternate exchange
// to the same queue.
func (c *churn) choosing(ctx context.Context) error {
	a, b := c.drains[0], c.drains[1]
	modulus, local := c.Queue("modulus"), c.Queue("local-random")
	ways := []string{c.Queue("way-1"), c.Queue("way-2")}
	declare := func(x client.Exchange) error {
		x.VHost = c.VHost
		_, err := c.Client.DeclareExchange(ctx, x)
		return err
	}
	bind := func(x client.Binding) error {
		x.VHost = c.VHost
		return c.Client.Bind(ctx, x)
	}
	for _, way := range ways {
		if err := errors.Join(declare(client.Exchange{Name: way, Type: "fanout"}), bind(client.Binding{Source: way, Destination: b})); err != nil {
			return err
		}
	}
	for _, kind := range []string{"x-consistent-hash", "x-random"} {
		name := c.Queue(strings.TrimPrefix(kind, "x-"))
		err := declare(client.Exchange{Name: name, Type: kind})
		for _, way := range ways {
			err = errors.Join(err, bind(client.Binding{Source: name, Destination: way, ToExchange: true, RoutingKey: "1"}))
		}
		if err != nil {
			return err
		}
		c.routes = append(c.routes, route{exchange: name, key: "one", queues: []string{b}, chooses: true},
			route{exchange: name, key: "two", queues: []string{b}, chooses: true})
	}
	err := errors.Join(
		declare(client.Exchange{Name: modulus, Type: "x-modulus-hash"}),
		bind(client.Binding{Source: modulus, Destination: a}), bind(client.Binding{Source: modulus, Destination: b}),
		declare(client.Exchange{Name: local, Type: "x-local-random", Arguments: client.Table{"alternate-exchange": ways[0]}}),
		bind(client.Binding{Source: local, Destination: b}),
	)
	c.routes = append(c.routes, route{exchange: local, key: "any", queues: []string{b}, chooses: true})
	for _, key := range []string{"k1", "k2", "k3", "k4"} {
		c.routes = append(c.routes, route{exchange: modulus, key: key, queues: []string{[]string{a, b}[modulusHash(key)%2]}, chooses: true})
	}
	return err
}

// modulusHash is the hash of exchanges as docs/formats/catalog.md has it, not the broker's own: messages
// go to the same queues in every build.
func modulusHash(key string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(key)) // it never fails
	h := f.Sum64()
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// changeBindings declares a queue that nobody consumes from, binds it to all exchanges, changes a
// policy of all queues, and takes all of it back, over and over. Errors are no fault: nodes may be
// down.
func (c *churn) changeBindings(ctx, publishing context.Context) error {
	beside := c.Queue("beside")
	policy := client.Policy{VHost: c.VHost, Name: c.Prefix, Pattern: "^" + c.Prefix + `\.(a|b|beside)$`, ApplyTo: "queues"}
	for n := 0; wait.For(publishing, churnEvery) == nil; n++ {
		asking, cancel := context.WithTimeout(ctx, churnTimeout)
		_, err := c.Client.DeclareQueue(asking, client.Queue{VHost: c.VHost, Name: beside, Arguments: client.Table{"x-max-length": 100}})
		for _, r := range c.routes {
			if err == nil && r.exchange != "" && !r.chooses {
				err = c.Client.Bind(asking, client.Binding{VHost: c.VHost, Source: r.exchange, Destination: beside, RoutingKey: r.key, Arguments: r.headers})
			}
		}
		policy.Definition = client.Table{"max-length": 1_000_000 + n}
		if err == nil {
			_, err = c.Client.PutPolicy(asking, policy)
		}
		if err == nil && n%2 == 1 {
			_, err = c.Client.DeletePolicy(asking, client.PolicyRef{VHost: c.VHost, Name: policy.Name})
		}
		if err == nil {
			_, err = c.Client.DeleteQueue(asking, client.DeleteQueueRequest{VHost: c.VHost, Name: beside})
		}
		cancel()
		if err != nil {
			c.Log("churn: %v", err)
		}
	}
	return nil
}

// cycle declares a queue, publishes to it, deletes it and declares it again: a consumer then sees
// what is published to the new queue, and nothing of before.
func (c *churn) cycle(ctx, publishing context.Context) error {
	name := c.Queue("again")
	p := &Publisher{Client: c.Client, History: c.History, Class: string(GRPCAll), VHost: c.VHost, Queue: name, Size: bodyBytes, Count: cycleSize}
	consumer := &Consumer{Client: c.Client, History: c.History, Class: string(GRPCAll), VHost: c.VHost, Queue: name, Prefetch: prefetch}
	for wait.For(publishing, churnEvery) == nil {
		if _, err := c.Client.DeclareQueue(ctx, client.Queue{VHost: c.VHost, Name: name}); err != nil {
			c.Log("churn: %v", err)
			continue
		}
		c.History.Add(history.Event{Kind: history.Declared, Queue: name, Spec: &history.Queue{DeliveryLimit: -1}})
		if err := p.Run(ctx, churnTimeout); err != nil {
			c.Log("churn: %v", err)
		}
		visiting, cancel := context.WithTimeout(ctx, cycleStay)
		err := consumer.Run(visiting)
		cancel()
		if err == nil { // these are not consumed, and go with their queue
			err = p.Run(ctx, churnTimeout)
		}
		if err != nil {
			c.Log("churn: %v", err)
		}
		c.History.Add(history.Event{Kind: history.Deleted, Queue: name})
		c.write(ctx, c.Client, 0, name, false)
	}
	return nil
}

// rename declares, deletes and looks for one name through one node. What the node answers to one
// client the others see there at once (EX-15), so that the name is a register.
func (c *churn) rename(ctx, publishing context.Context, node string, who int) error {
	own, err := client.New(c.Cluster.Dial(node))
	if err != nil {
		return err
	}
	defer own.Close()
	random, name := c.random(who), c.Queue("name-"+node)
	for wait.For(publishing, churnEvery+time.Duration(random.Int64N(int64(churnEvery)))) == nil {
		switch random.IntN(3) {
		case 0:
			c.write(ctx, own, who+1, name, true)
		case 1:
			c.write(ctx, own, who+1, name, false)
		default:
			c.read(ctx, own, who+1, name)
		}
	}
	return nil
}

// exists is the value of a name that a queue has; that of others is empty.
const exists = "exists"

// repeatedAfter is less than a node's time for a command. What has no answer by then, a node or the client
// repeats; the attempt before, of a node that was cut off from the client, may still take effect after the answer.
const repeatedAfter = 3 * time.Second

// write declares or deletes a queue, as an operation on the register of its name. One that failed
// may have been done, or be done later. One that took long may be done twice, with what others do between.
func (c *churn) write(ctx context.Context, by *client.Client, who int, name string, declares bool) {
	asking, cancel := context.WithTimeout(ctx, churnTimeout)
	defer cancel()
	op := history.Operation{Client: who, Name: name, Write: true, Call: c.History.Now()}
	var err error
	if declares {
		op.Value = exists
		_, err = by.DeclareQueue(asking, client.Queue{VHost: c.VHost, Name: name})
	} else {
		_, err = by.DeleteQueue(asking, client.DeleteQueueRequest{VHost: c.VHost, Name: name})
	}
	op.Return, op.Uncertain = c.History.Now(), err != nil
	c.History.Add(history.Event{Kind: history.Register, Op: &op, Note: noteOf(err)})
	if err != nil || op.Return-op.Call > repeatedAfter {
		again := op
		again.Uncertain = true
		c.History.Add(history.Event{Kind: history.Register, Op: &again, Note: "a repeat"})
	}
}

// read declares passively. An error that says nothing about the name is no read.
func (c *churn) read(ctx context.Context, by *client.Client, who int, name string) {
	asking, cancel := context.WithTimeout(ctx, churnTimeout)
	defer cancel()
	op := history.Operation{Client: who, Name: name, Call: c.History.Now()}
	_, err := by.DeclareQueue(asking, client.Queue{VHost: c.VHost, Name: name, Passive: true})
	op.Return = c.History.Now()
	switch {
	case err == nil:
		op.Value = exists
	case client.ClassOf(err) != client.NotFound:
		return
	}
	c.History.Add(history.Event{Kind: history.Register, Op: &op})
}

// noteOf returns the text of an error, if there is one.
func noteOf(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}

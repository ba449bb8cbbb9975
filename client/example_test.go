package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/gobuild"
)

// The examples run against three real nodes, which the first example that needs them starts.
var cluster struct {
	once sync.Once
	dir  string
	*chaos.Cluster
}

func TestMain(m *testing.M) {
	code := m.Run()
	if cluster.Cluster != nil {
		cluster.Kill()
	}
	_ = os.RemoveAll(cluster.dir)
	os.Exit(code)
}

// addresses returns the nodes' client addresses.
func addresses() []string {
	cluster.once.Do(func() {
		var err error
		if cluster.dir, err = os.MkdirTemp("", "quorate-client-"); err != nil {
			panic(err)
		}
		binary := filepath.Join(cluster.dir, "node")
		if err := gobuild.Program(context.Background(), "..", "./cmd/node", binary); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: cluster.dir})
		if err != nil {
			panic(err)
		}
		cluster.Cluster = c
		if err := c.Start(ctx); err != nil {
			panic(err)
		}
	})
	return cluster.Addresses()
}

// Declare a queue, publish with a confirm, consume and ack.
func Example() {
	nodes := addresses()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addresses: nodes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	if _, err := c.DeclareQueue(ctx, client.Queue{Name: "orders"}); err != nil {
		fmt.Println(err)
		return
	}

	publisher, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := publisher.Publish(ctx, client.Message{RoutingKey: "orders", Body: []byte("one tea")})
	fmt.Println(result.Outcome, err)

	consumer, err := c.Consume(ctx, client.ConsumeConfig{Queue: "orders", Prefetch: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer consumer.Close()
	delivery, err := consumer.Receive(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(delivery.Body), delivery.Ack())
	// Output:
	// confirmed <nil>
	// one tea <nil>
}

// Many messages are in flight at a time, and each has its own outcome.
func ExamplePublisher_PublishAsync() {
	nodes := addresses()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addresses: nodes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.DeclareQueue(ctx, client.Queue{
		Name: "short", Arguments: client.Table{"x-max-length": 2, "x-overflow": "reject-publish"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	publisher, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	errs := make([]error, 3)
	for i := range errs {
		m := client.Message{RoutingKey: "short", Body: []byte("m")}
		if err := publisher.PublishAsync(ctx, m, func(_ client.Result, err error) { errs[i] = err }); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := publisher.Close(ctx); err != nil { // waits for all outcomes
		fmt.Println(err)
		return
	}
	for _, err := range errs {
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// client: message rejected: queue "short": maxlen
}

// A handler that fails returns its message. Above the delivery limit, the message is dead-lettered.
func ExampleConsumer_Run() {
	nodes := addresses()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addresses: nodes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for _, q := range []client.Queue{{Name: "failed"}, {Name: "jobs", Arguments: client.Table{
		"x-delivery-limit": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed",
	}}} {
		if _, err := c.DeclareQueue(ctx, q); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := c.PublishOne(ctx, client.Message{RoutingKey: "jobs", Body: []byte("impossible")}); err != nil {
		fmt.Println(err)
		return
	}
	jobs, err := c.Consume(ctx, client.ConsumeConfig{Queue: "jobs"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer jobs.Close()
	failed, err := c.Consume(ctx, client.ConsumeConfig{Queue: "failed"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer failed.Close()

	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- jobs.Run(working, func(context.Context, *client.Delivery) error { return errors.New("cannot do it") })
	}()
	dead, err := failed.Receive(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(dead.Body), dead.Deaths[0].Queue, dead.Deaths[0].Reason, dead.Ack())
	stop()
	fmt.Println(<-ended)
	// Output:
	// impossible jobs delivery_limit <nil>
	// <nil>
}

// An error has a class, and names what it is about.
func ExampleError() {
	nodes := addresses()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addresses: nodes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	_, err = c.Get(ctx, client.GetRequest{Queue: "nowhere"})
	var e *client.Error
	fmt.Println(errors.As(err, &e), e.Class, e.Kind, e.Name)
	// Output:
	// true NOT_FOUND queue nowhere
}

package main

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/chaos"
)

// EX-16: a node that cannot serve clients yet refuses connections over AMQP, so that clients go on to another node, and
// takes them when it can.
func TestAMQPOfStartingNode(t *testing.T) {
	t.Parallel()
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: build(t), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	first := c.Nodes[0]
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	poll(ctx, t, "clients of the native API connect", func() error { return connects(ctx, first.Client) })
	if err := connects(ctx, first.AMQP); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection over AMQP to a node without a majority: %v", err)
	}
	if err := c.Nodes[1].Start(); err != nil {
		t.Fatal(err)
	}
	poll(ctx, t, "a client logs in over AMQP", func() error {
		conn, err := amqp.Dial("amqp://guest:guest@" + first.AMQP + "/")
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// connects opens a TCP connection, and closes it.
func connects(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

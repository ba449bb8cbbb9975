package amqp

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/testnode"
	"github.com/quorate/quorate/internal/wait"
)

// A connection whose message found no room in some queues waits until all of them have room again.
// Its client is notified twice: at the beginning and at the end.
func TestQueuesWithoutRoom(t *testing.T) {
	b := broker.New(testnode.Waiting(t), broker.Config{})
	defer b.Close()
	s := New(Config{Broker: b})
	var scarce atomic.Int32
	asked := make(chan struct{}, 1)
	s.room = func(_, queue string) error {
		defer wait.Wake(asked)
		if queue == "one" && scarce.Load() > 1 || queue == "two" && scarce.Load() > 0 {
			return errors.New("no room")
		}
		return nil
	}
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	c := newConn(s, near)
	defer c.stop()
	c.client.blocked = true
	scarce.Store(2)
	for _, q := range []string{"one", "two", "one"} {
		c.block("n1 has none", q)
	}
	free := make(chan error, 1)
	go func() { free <- c.awaitUnblocked(&c.hand) }()
	for range 2 { // no queue has room, then one of two
		<-asked
		select {
		case err := <-free:
			t.Fatal("it goes on with ", err)
		default:
		}
		scarce.Store(1)
	}
	scarce.Store(0)
	if err := <-free; err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	want := wire.AppendMethod(nil, 0, &wire.ConnectionBlocked{Reason: "n1 has none"})
	if want = wire.AppendMethod(want, 0, &wire.ConnectionUnblocked{}); string(c.out) != string(want) {
		t.Errorf("%q, want %q", c.out, want)
	}
}

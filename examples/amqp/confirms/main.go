// Command confirms publishes messages and waits until the broker confirms them: one by one, in
// batches, and asynchronously, with the confirms as they come.
//
//	go run ./confirms 1000
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/examples/amqp/connect"
)

const batch = 100

// main publishes the same messages in three ways. They differ in how many confirms may be
// outstanding.
func main() {
	n := 1000
	if len(os.Args) > 1 {
		var err error
		n, err = strconv.Atoi(os.Args[1])
		connect.Must(err)
	}
	ch, done := connect.Channel()
	defer done()
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	connect.Must(err)
	connect.Must(ch.Confirm(false))
	for _, way := range []struct {
		name   string
		window int
	}{{"one by one", 1}, {"in batches", batch}, {"as they come", n}} {
		confirmed := publish(ch, q.Name, n, way.window)
		fmt.Println(way.name+":", confirmed, "confirmed")
	}
	count, err := ch.QueuePurge(q.Name, false)
	connect.Must(err)
	fmt.Println("the queue had", count)
}

// publish publishes n messages and waits for confirms after each window of them.
func publish(ch *amqp.Channel, queue string, n, window int) (confirmed int) {
	var open []*amqp.DeferredConfirmation
	for i := range n {
		d, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, false, false, amqp.Publishing{
			Body: fmt.Appendf(nil, "message %d", i),
		})
		connect.Must(err)
		if open = append(open, d); len(open) < window && i < n-1 {
			continue
		}
		for _, d := range open {
			kept, err := d.WaitContext(context.Background())
			connect.Must(err)
			if !kept {
				connect.Must(errors.New("the broker refused a message; it would be sent again here"))
			}
			confirmed++
		}
		open = open[:0]
	}
	return confirmed
}

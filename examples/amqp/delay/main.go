// Command delay delays messages: a message waits in a queue without consumers, expires there, and
// its dead-letter exchange routes it to the queue where it is due.
//
//	go run ./delay wait
//	go run ./delay after 1500 "tea is ready"
package main

import (
	"context"
	"fmt"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/examples/amqp/connect"
)

const (
	due     = "example.due"
	waiting = "example.waiting"
)

// main builds a delay from two queues: the first has no consumers, and messages that expire in it
// are dead-lettered to the second.
func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: delay wait | after MILLISECONDS TEXT")
		os.Exit(2)
	}
	ch, done := connect.Channel()
	defer done()
	_, err := ch.QueueDeclare(due, true, false, false, false, nil)
	connect.Must(err)
	_, err = ch.QueueDeclare(waiting, true, false, false, false, amqp.Table{
		"x-message-ttl":          int32(3_600_000), // an hour at most
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": due,
	})
	connect.Must(err)
	if os.Args[1] == "after" && len(os.Args) == 4 {
		connect.Must(ch.PublishWithContext(context.Background(), "", waiting, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Expiration: os.Args[2], Body: []byte(os.Args[3]),
		}))
		fmt.Println("later:", os.Args[3])
		return
	}
	messages, err := ch.Consume(due, "", false, false, false, false, nil)
	connect.Must(err)
	fmt.Println("ready")
	for m := range messages {
		fmt.Println("due:", string(m.Body))
		connect.Must(m.Ack(false))
	}
}

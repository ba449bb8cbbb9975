// Command publishsubscribe sends each message to all listeners: each listener has a queue of its
// own, named by the broker, that is deleted when its connection ends.
//
//	go run ./publishsubscribe listen
//	go run ./publishsubscribe publish "door opened"
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/examples/amqp/connect"
)

const exchange = "example.news"

// main declares the exchange on both sides, so that either may be started first. Each listener has
// a queue of its own, which is deleted when the listener ends.
func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: publishsubscribe listen | publish TEXT")
		os.Exit(2)
	}
	ch, done := connect.Channel()
	defer done()
	connect.Must(ch.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))
	if os.Args[1] == "publish" {
		text := strings.Join(os.Args[2:], " ")
		connect.Must(ch.PublishWithContext(context.Background(), exchange, "", false, false, amqp.Publishing{Body: []byte(text)}))
		fmt.Println("published", text)
		return
	}
	mine, err := ch.QueueDeclare("", false, false, true, false, nil)
	connect.Must(err)
	connect.Must(ch.QueueBind(mine.Name, "", exchange, false, nil))
	news, err := ch.Consume(mine.Name, "", true, false, false, false, nil)
	connect.Must(err)
	fmt.Println("ready")
	for n := range news {
		fmt.Println("heard", string(n.Body))
	}
}

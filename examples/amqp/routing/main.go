// Command routing routes log lines to the listeners that asked for their level.
//
//	go run ./routing listen warning error
//	go run ./routing log error "disk full"
package main

import (
	"context"
	"fmt"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/examples/amqp/connect"
)

const exchange = "example.log"

// main binds the listener's own queue once for each level that the listener asks for.
func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: routing listen LEVEL… | log LEVEL TEXT")
		os.Exit(2)
	}
	ch, done := connect.Channel()
	defer done()
	connect.Must(ch.ExchangeDeclare(exchange, "direct", true, false, false, false, nil))
	if os.Args[1] == "log" && len(os.Args) == 4 {
		connect.Must(ch.PublishWithContext(context.Background(), exchange, os.Args[2], false, false, amqp.Publishing{Body: []byte(os.Args[3])}))
		fmt.Println("logged", os.Args[3])
		return
	}
	mine, err := ch.QueueDeclare("", false, false, true, false, nil)
	connect.Must(err)
	for _, level := range os.Args[2:] {
		connect.Must(ch.QueueBind(mine.Name, level, exchange, false, nil))
	}
	lines, err := ch.Consume(mine.Name, "", true, true, false, false, nil)
	connect.Must(err)
	fmt.Println("ready")
	for l := range lines {
		fmt.Println(l.RoutingKey, string(l.Body))
	}
}

// Command topics routes messages to the listeners whose patterns match their keys. A key is words
// with dots between them: * is any one word, # any number of them.
//
//	go run ./topics listen "sensor.*.temperature" "#.alarm"
//	go run ./topics publish sensor.cellar.temperature "11 °C"
package main

import (
	"context"
	"fmt"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/examples/amqp/connect"
)

const exchange = "example.sensors"

// main binds the listener's own queue once for each pattern that the listener asks for.
func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: topics listen PATTERN… | publish KEY TEXT")
		os.Exit(2)
	}
	ch, done := connect.Channel()
	defer done()
	connect.Must(ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	if os.Args[1] == "publish" && len(os.Args) == 4 {
		connect.Must(ch.PublishWithContext(context.Background(), exchange, os.Args[2], false, false, amqp.Publishing{Body: []byte(os.Args[3])}))
		fmt.Println("published", os.Args[2])
		return
	}
	mine, err := ch.QueueDeclare("", false, false, true, false, nil)
	connect.Must(err)
	for _, pattern := range os.Args[2:] {
		connect.Must(ch.QueueBind(mine.Name, pattern, exchange, false, nil))
	}
	events, err := ch.Consume(mine.Name, "", true, true, false, false, nil)
	connect.Must(err)
	fmt.Println("ready")
	for e := range events {
		fmt.Println(e.RoutingKey, string(e.Body))
	}
}

// Command workqueue distributes tasks to workers: each task goes to one of them, and to another one
// if that one dies. A worker gets its next task only when it is free.
//
//	go run ./workqueue work         # in as many terminals as you like
//	go run ./workqueue add "resize picture 7"
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/examples/amqp/connect"
)

const queue = "example.tasks"

// main declares the queue on both sides, so that either may be started first.
func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: workqueue work | add TASK")
		os.Exit(2)
	}
	ch, done := connect.Channel()
	defer done()
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	connect.Must(err)
	if os.Args[1] == "add" {
		add(ch, strings.Join(os.Args[2:], " "))
		return
	}
	work(ch)
}

// add publishes a persistent task, which survives a restart of the broker.
func add(ch *amqp.Channel, task string) {
	connect.Must(ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: "text/plain", Body: []byte(task),
	}))
	fmt.Println("added", task)
}

// work takes one task at a time, so that several workers share the queue evenly.
func work(ch *amqp.Channel) {
	connect.Must(ch.Qos(1, 0, false)) // one task at a time
	tasks, err := ch.Consume(queue, "", false, false, false, false, nil)
	connect.Must(err)
	fmt.Println("ready")
	for task := range tasks {
		fmt.Println("did", string(task.Body))
		connect.Must(task.Ack(false)) // only the ack removes the task
	}
}

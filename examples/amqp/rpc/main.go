// Command rpc sends a question through one queue and gets the answer through another.
//
//	go run ./rpc serve
//	go run ./rpc ask 12
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/examples/amqp/connect"
)

const queue = "example.squares"

// main declares the queue of questions on both sides, so that either may be started first.
func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: rpc serve | ask NUMBER")
		os.Exit(2)
	}
	ch, done := connect.Channel()
	defer done()
	_, err := ch.QueueDeclare(queue, false, false, false, false, nil)
	connect.Must(err)
	if os.Args[1] == "ask" && len(os.Args) == 3 {
		ask(ch, os.Args[2])
		return
	}
	serve(ch)
}

// serve answers one question at a time, and acks a question only after its answer is published.
func serve(ch *amqp.Channel) {
	connect.Must(ch.Qos(1, 0, false))
	questions, err := ch.Consume(queue, "", false, false, false, false, nil)
	connect.Must(err)
	fmt.Println("ready")
	for q := range questions {
		answer := "that is no number"
		if n, err := strconv.Atoi(string(q.Body)); err == nil {
			answer = strconv.Itoa(n * n)
		}
		connect.Must(ch.PublishWithContext(context.Background(), "", q.ReplyTo, false, false, amqp.Publishing{
			CorrelationId: q.CorrelationId, Body: []byte(answer),
		}))
		connect.Must(q.Ack(false))
	}
}

// ask takes only the answer with its own correlation id. The queue may also have answers to earlier
// questions.
func ask(ch *amqp.Channel, number string) {
	mine, err := ch.QueueDeclare("", false, false, true, false, nil)
	connect.Must(err)
	answers, err := ch.Consume(mine.Name, "", true, true, false, false, nil)
	connect.Must(err)
	question := rand.Text()
	connect.Must(ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{
		CorrelationId: question, ReplyTo: mine.Name, Body: []byte(number),
	}))
	for a := range answers {
		if a.CorrelationId == question {
			fmt.Println(number, "squared is", string(a.Body))
			return
		}
	}
}

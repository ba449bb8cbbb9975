// Command retry retries failed jobs after a pause, and gives up after three tries: a rejected
// message goes to a queue where it waits, and comes back when it expires there. Its header x-death
// has the number of rounds.
//
//	go run ./retry work
//	go run ./retry add "call a service that is down"
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/examples/amqp/connect"
)

const (
	jobs    = "example.jobs"
	pausing = "example.jobs.pausing"
	failed  = "example.jobs.failed"
	pause   = int32(200) // milliseconds
	tries   = 3
)

// main makes rejected jobs wait in a second queue, from which they expire back to the first. It
// counts the rounds by x-death and gives up after a fixed number.
func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: retry work | add JOB")
		os.Exit(2)
	}
	ch, done := connect.Channel()
	defer done()
	for name, args := range map[string]amqp.Table{
		jobs:    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": pausing},
		pausing: {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": jobs, "x-message-ttl": pause},
		failed:  nil,
	} {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		connect.Must(err)
	}
	if os.Args[1] == "add" {
		publish(ch, jobs, []byte(strings.Join(os.Args[2:], " ")))
		return
	}
	messages, err := ch.Consume(jobs, "", false, false, false, false, nil)
	connect.Must(err)
	fmt.Println("ready")
	for m := range messages {
		try := rejections(m.Headers) + 1
		fmt.Printf("try %d of %s\n", try, m.Body)
		if try < tries {
			connect.Must(m.Reject(false)) // to the queue where jobs wait
			continue
		}
		publish(ch, failed, m.Body)
		connect.Must(m.Ack(false))
		fmt.Println("gave up", string(m.Body))
	}
}

func publish(ch *amqp.Channel, queue string, body []byte) {
	connect.Must(ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}))
}

// rejections returns how often a message was rejected from the queue of jobs.
func rejections(headers amqp.Table) int {
	deaths, _ := headers["x-death"].([]any)
	for _, d := range deaths {
		death, _ := d.(amqp.Table)
		if count, ok := death["count"].(int64); ok && death["queue"] == jobs && death["reason"] == "rejected" {
			return int(count)
		}
	}
	return 0
}

// Package connect has the connection code that all programs here share.
package connect

import (
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Channel connects to the broker of AMQP_URL and opens a channel. It ends the program if it cannot.
// The returned function closes both.
func Channel() (*amqp.Channel, func()) {
	url := os.Getenv("AMQP_URL")
	if url == "" {
		url = "amqp://guest:guest@localhost:5672/"
	}
	conn, err := amqp.Dial(url)
	Must(err)
	ch, err := conn.Channel()
	Must(err)
	return ch, func() { Must(conn.Close()) }
}

// Must ends the program when there is an error.
func Must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

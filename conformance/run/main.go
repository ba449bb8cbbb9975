// Command run tries AMQP 0-9-1 clients on this broker and on RabbitMQ:
//
//	go run ./run -clients amqp091-go,pika -brokers quorate,rabbitmq -only '^declare'
//
// It prints a line for each client and broker, what failed, and at last a count. What is
// not installed is skipped, with the reason.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"

	"github.com/quorate/quorate/conformance"
)

// main ends with 2 if the run itself failed, and with 1 if a scenario did.
func main() {
	o := conformance.Options{Out: os.Stdout}
	clients := flag.String("clients", "", "which clients, with commas between them; empty: all")
	brokers := flag.String("brokers", "", "quorate, rabbitmq; empty: both")
	only := flag.String("only", "", "pattern of the scenarios to run; empty: all")
	flag.BoolVar(&o.Verbose, "v", false, "print a JSON line for each scenario")
	flag.StringVar(&o.Rewrite, "rewrite", "", "rewrite the scenarios' answers to what the clients get: `answers` for the answers of all, or differences")
	flag.Parse()
	o.Clients, o.Brokers = names(*clients), names(*brokers)
	var err error
	if o.Only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := conformance.Run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

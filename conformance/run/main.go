// Command run runs AMQP 0-9-1 clients against this broker and RabbitMQ:
//
//	go run ./run -clients amqp091-go,pika -brokers quorate,rabbitmq -only '^declare'
//
// It prints a line for each client and broker, the failures, and a count at the end. It skips what
// is not installed and prints the reason.
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

// main exits with 2 if the run itself failed, and with 1 if a scenario failed.
func main() {
	o := conformance.Options{Out: os.Stdout}
	clients := flag.String("clients", "", "clients, separated by commas; empty: all")
	brokers := flag.String("brokers", "", "brokers, separated by commas: quorate, rabbitmq; empty: both")
	only := flag.String("only", "", "pattern of the scenarios to run; empty: all")
	flag.BoolVar(&o.Verbose, "v", false, "print a JSON line for each scenario")
	flag.StringVar(&o.Rewrite, "rewrite", "", "write the answers that the clients get into the scenarios: `answers` for the common answers, or differences")
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

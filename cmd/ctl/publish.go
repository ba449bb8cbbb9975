package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// publishFlags are the parts of a message that flags set.
type publishFlags struct {
	exchange  string
	ttl       time.Duration
	delay     time.Duration
	priority  int
	headers   []string
	mandatory bool
	lines     bool
	count     int
}

// newPublish makes `publish`. Without an exchange the message is mandatory: a queue that is named
// and missing must be an error.
func newPublish(s *session) *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish ROUTING-KEY [BODY]",
		Short: "Publish a message and wait for its confirm; without BODY it is read from standard input",
		Example: `  quoratectl publish orders "hello"
  quoratectl publish --exchange events eu.created --header kind=test < body.json
  seq 1000 | quoratectl publish orders --lines`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError{fmt.Errorf("publish takes ROUTING-KEY and at most one BODY, got %d arguments", len(args))}
			}
			if f.priority < -1 || f.priority > 255 || f.count < 1 || f.delay < 0 {
				return usageError{errors.New("--priority is 0 to 255, --count at least 1, --delay not below 0")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			headers, err := parseArguments(f.headers)
			if err != nil {
				return err
			}
			m := client.Message{VHost: s.vhost, Exchange: f.exchange, RoutingKey: args[0]}
			// Naming a queue that does not exist is a mistake, not a matter of routing.
			m.Mandatory = f.mandatory || f.exchange == ""
			m.Headers, m.DeliveryMode = headers, 2
			if cmd.Flags().Changed("ttl") {
				m.Expiration = client.TTL(f.ttl)
			}
			m.Delay = f.delay
			if f.priority >= 0 {
				m.Priority = client.Priority(uint8(f.priority))
			}
			dialing, cancel := context.WithTimeout(cmd.Context(), s.timeout)
			defer cancel()
			c, err := s.dial(dialing)
			if err != nil {
				return err
			}
			defer c.Close()
			return f.publish(s, cmd, c, m, args[1:])
		},
	}
	cmd.Flags().StringVarP(&f.exchange, "exchange", "e", "", "exchange; empty: ROUTING-KEY is the queue's name")
	cmd.Flags().DurationVar(&f.ttl, "ttl", 0, "time until the message expires")
	cmd.Flags().DurationVar(&f.delay, "delay", 0, "time until the message is ready in its queues; its time to live begins then")
	cmd.Flags().IntVar(&f.priority, "priority", -1, "priority, 0 to 255; -1: none")
	cmd.Flags().StringSliceVar(&f.headers, "header", nil, "name=value, repeatable")
	cmd.Flags().BoolVar(&f.mandatory, "mandatory", false, "fail when the exchange routes to no queue; a queue named by ROUTING-KEY must exist anyway")
	cmd.Flags().BoolVar(&f.lines, "lines", false, "publish every line of standard input as a message")
	cmd.Flags().IntVar(&f.count, "count", 1, "publish the message this many times")
	return cmd
}

// publish publishes all bodies without waiting for each confirm, then waits for all of them. It
// reports the first failure and how many were confirmed.
func (f *publishFlags) publish(s *session, cmd *cobra.Command, c *client.Client, m client.Message, body []string) error {
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	var confirmed atomic.Int64
	failed := make(chan error, 1)
	send := func(body []byte) error {
		m.Body = body
		return p.PublishAsync(cmd.Context(), m, func(_ client.Result, err error) {
			if err == nil {
				confirmed.Add(1)
				return
			}
			select {
			case failed <- unrouted(m, err):
			default:
			}
		})
	}
	err = f.bodies(cmd.InOrStdin(), body, send)
	closing, cancel := context.WithTimeout(cmd.Context(), s.timeout)
	defer cancel()
	err = errors.Join(err, p.Close(closing))
	select {
	case first := <-failed:
		err = errors.Join(first, err)
	default:
	}
	return errors.Join(err, s.printWord(cmd.OutOrStdout(), "confirmed", confirmed.Load()))
}

// unrouted adds a remedy to the error for a message that was routed nowhere.
func unrouted(m client.Message, err error) error {
	var not *client.NotConfirmedError
	switch {
	case !errors.As(err, &not) || not.Result.Outcome != client.Returned:
		return err
	case m.Exchange == "":
		return fmt.Errorf("queue %q does not exist: declare it first: %w", m.RoutingKey, err)
	default:
		return fmt.Errorf("exchange %q routes key %q to no queue: bind one first: %w", m.Exchange, m.RoutingKey, err)
	}
}

// bodies passes the body of every message to send.
func (f *publishFlags) bodies(in io.Reader, given []string, send func([]byte) error) error {
	if f.lines {
		const longest = 16 << 20
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, longest)
		for lines.Scan() {
			if err := send(append([]byte(nil), lines.Bytes()...)); err != nil {
				return err
			}
		}
		return lines.Err()
	}
	var body []byte
	if len(given) == 1 {
		body = []byte(given[0])
	} else {
		var err error
		if body, err = io.ReadAll(in); err != nil {
			return err
		}
	}
	for range f.count {
		if err := send(body); err != nil {
			return err
		}
	}
	return nil
}

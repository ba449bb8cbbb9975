package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// decisions are what the command line can do with a message.
func decisions() map[string]client.Decision {
	return map[string]client.Decision{
		"ack":     {Kind: client.Ack},
		"return":  {Kind: client.Requeue},
		"fail":    {Kind: client.Requeue, Failed: true},
		"discard": {Kind: client.Discard, Failed: true},
	}
}

// parseDecision reads the value of --do.
func parseDecision(name string) (client.Decision, error) {
	d, ok := decisions()[name]
	if !ok {
		return d, usageError{fmt.Errorf("--do is %q: use ack, return, fail or discard", name)}
	}
	return d, nil
}

// newConsume makes `consume`. --timeout bounds the dialing only. A message is printed before it is
// decided on: what the user has not seen returns to the queue.
func newConsume(s *session) *cobra.Command {
	var count int
	var idle time.Duration
	var do string
	var prefetch uint32
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "consume QUEUE",
		Short: "Print messages and ack them, until Ctrl-C, --count or --idle",
		Args:  exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			decision, err := parseDecision(do)
			if err != nil {
				return err
			}
			dialing, cancel := context.WithTimeout(cmd.Context(), s.timeout)
			defer cancel()
			c, err := s.dial(dialing)
			if err != nil {
				return err
			}
			defer c.Close()
			consumer, err := c.Consume(dialing, client.ConsumeConfig{
				VHost: s.vhost, Queue: args[0], Prefetch: prefetch, Timeout: timeout,
			})
			if err != nil {
				return err
			}
			defer consumer.Close()
			for n := 0; count == 0 || n < count; n++ {
				d, err := receive(cmd.Context(), consumer, idle)
				if d == nil {
					return err
				}
				if err := s.printMessage(cmd.OutOrStdout(), &d.Received); err != nil {
					return err
				}
				if err := d.Decide(decision); err != nil && !errors.Is(err, client.ErrStale) {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().IntVarP(&count, "count", "n", 0, "end after this many messages; 0: never")
	cmd.Flags().DurationVar(&idle, "idle", 0, "end when no message came for this long; 0: never")
	cmd.Flags().StringVar(&do, "do", "ack", strings.Join([]string{"ack", "return", "fail", "discard"}, ", "))
	cmd.Flags().Uint32Var(&prefetch, "prefetch", 100, "maximum number of unsettled messages")
	cmd.Flags().DurationVar(&timeout, "consumer-timeout", 0, "a message that stays unsettled for this long returns to the queue; 0: the queue's timeout, negative: no timeout")
	return cmd
}

// receive returns nil without an error when it is time to end.
func receive(ctx context.Context, c *client.Consumer, idle time.Duration) (*client.Delivery, error) {
	wait := ctx
	if idle > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, idle)
		defer cancel()
	}
	d, err := c.Receive(wait)
	if err != nil && wait.Err() != nil {
		return nil, nil // the user or --idle ended it
	}
	return d, err
}

// newGet makes `get`. The message is settled even if printing fails; otherwise it would stay taken
// until its hold expires.
func newGet(s *session) *cobra.Command {
	var do string
	cmd := &cobra.Command{
		Use:   "get QUEUE",
		Short: "Take one message, print it and put it back, or as --do says",
		Args:  exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			decision, err := parseDecision(do)
			if err != nil {
				return err
			}
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				m, err := c.Get(ctx, client.GetRequest{VHost: s.vhost, Queue: args[0]})
				if err != nil {
					return err
				}
				if m == nil {
					return fmt.Errorf("queue %q has nothing ready", args[0])
				}
				return errors.Join(s.printMessage(cmd.OutOrStdout(), &m.Received), c.Settle(ctx, client.SettleRequest{Token: m.Token, Decision: decision}))
			})
		},
	}
	cmd.Flags().StringVar(&do, "do", "return", "ack, return, fail or discard")
	return cmd
}

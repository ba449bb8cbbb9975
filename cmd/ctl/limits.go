package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate/client"
)

// limitFlag is a limit of a vhost or user with a flag of the same name.
type limitFlag struct {
	name, of string
	value    **int64
}

// vhostLimitFlags lists the flags with where they store. The first two have columns of their own in
// `vhost list`; the rest go into the column quotas.
func vhostLimitFlags(l *client.VHostLimits) []limitFlag {
	return []limitFlag{
		{"max-connections", "connections", &l.MaxConnections},
		{"max-queues", "queues", &l.MaxQueues},
		{"max-channels", "channels", &l.MaxChannels},
		{"max-consumers", "consumers", &l.MaxConsumers},
		{"max-message-rate", "messages published per second; publishers above it wait", &l.MaxMessageRate},
		{"max-byte-rate", "bytes of bodies published per second; publishers above it wait", &l.MaxByteRate},
		{"max-stored-bytes", "bytes of bodies in all queues; publishers wait while the limit is reached", &l.MaxStoredBytes},
	}
}

// userLimitFlags lists the flags with where they store. The first two have columns of their own in
// `user list`; the rest go into the column quotas.
func userLimitFlags(l *client.UserLimits) []limitFlag {
	return []limitFlag{
		{"max-connections", "connections", &l.MaxConnections},
		{"max-channels", "channels", &l.MaxChannels},
		{"max-consumers", "consumers", &l.MaxConsumers},
		{"max-message-rate", "messages published per second; publishers above it wait", &l.MaxMessageRate},
		{"max-byte-rate", "bytes of bodies published per second; publishers above it wait", &l.MaxByteRate},
		{"max-queues", "queues that it has declared", &l.MaxQueues},
		{"max-stored-bytes", "bytes of bodies in the queues that it has declared; publishers to these wait while the limit is reached", &l.MaxStoredBytes},
	}
}

// orNone returns no limits for nil.
func orNone(l *client.UserLimits) *client.UserLimits {
	if l == nil {
		return &client.UserLimits{}
	}
	return l
}

func (f limitFlag) add(cmd *cobra.Command) {
	cmd.Flags().AddFlag(&pflag.Flag{Name: f.name, Usage: f.of + "; -1: no limit, 0: none allowed", Value: limitValue{f.value}, DefValue: strconv.Itoa(noLimit)})
}

// limitValue is a number that may be absent.
type limitValue struct{ to **int64 }

func (v limitValue) String() string {
	if v.to == nil || *v.to == nil {
		return strconv.Itoa(noLimit)
	}
	return strconv.FormatInt(**v.to, 10)
}

func (limitValue) Type() string { return "int" }

func (v limitValue) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("want a whole number: %w", err)
	}
	*v.to = &n
	return nil
}

// quotaText shows limits by their names, "-" for none.
func quotaText(of []limitFlag) string {
	var set []string
	for _, f := range of {
		if *f.value != nil {
			set = append(set, f.name+"="+strconv.FormatInt(**f.value, 10))
		}
	}
	if len(set) == 0 {
		return "-"
	}
	return strings.Join(set, ",")
}

// newUsage makes `show` for the limits of a vhost or user, with the current use of each.
func newUsage(s *session, of string, list func(context.Context, *client.Client, string) iter.Seq2[client.Limit, error]) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show the limits of a " + of + "and the current use of each", Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(list(ctx, c, args[0]))
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), []string{"limit", "value", "used"}, all, func(l client.Limit) []string {
					used := "-"
					if l.Used != nil {
						used = strconv.FormatFloat(*l.Used, 'f', 0, 64)
					}
					return []string{l.Name, limitText(l.Limit), used}
				})
			})
		},
	}
}

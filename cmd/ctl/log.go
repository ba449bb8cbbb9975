package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newLog groups `quoratectl log`.
func newLog(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Show the nodes' logs, and make them say more for a while"}
	cmd.AddCommand(newLogTail(s), newLogLevel(s))
	return cmd
}

// newLogTail makes `log tail`.
func newLogTail(s *session) *cobra.Command {
	r := client.TailLogRequest{}
	cmd := &cobra.Command{
		Use: "tail [NODE]", Short: "Show the newest lines of a node's log, or of all; with -f also new ones as they come, until ctrl-c", Args: optionalArg("NODE"),
		Long: "Show the newest lines of a node's log, or of all nodes. Needs the tag administrator. Each node is asked at its own address.\n" +
			"Nodes keep their newest 2000 lines in memory, and none over a restart; what collects the nodes' output has all of them.",
		Example: "  quoratectl log tail --level warn\n  quoratectl log tail node-1 -f -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			var one sync.Mutex // nodes answer at the same time
			return s.onNodes(cmd, args, r.Follow, func(ctx context.Context, c *client.Client) error {
				return c.TailLog(ctx, r, func(x client.LogLines) error {
					one.Lock()
					defer one.Unlock()
					return s.printLog(cmd, x)
				})
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Level, "level", "", "the lowest level that is shown: debug, info, warn or error; default: all that is logged")
	f.Uint32VarP(&r.Limit, "last", "n", 0, "maximum number of lines of each node; 0: 100")
	f.BoolVarP(&r.Follow, "follow", "f", false, "then follow new lines, until ctrl-c")
	return cmd
}

// printLog prints lines, as objects one by one with -o json.
func (s *session) printLog(cmd *cobra.Command, x client.LogLines) error {
	for _, l := range x.Lines {
		if s.output != outputTable {
			line := client.LogLines{Node: x.Node, Lines: []client.LogLine{l}}
			if err := s.encodeNext(cmd.OutOrStdout(), plain(line)); err != nil {
				return err
			}
			continue
		}
		printf(cmd.OutOrStdout(), "%s\n", logText(x.Node, l))
	}
	return nil
}

// logText is a line of a node's log for people.
func logText(node string, l client.LogLine) string {
	text := fmt.Sprintf("%s %s %-5s %s", l.At.UTC().Format("2006-01-02T15:04:05.000Z"), node, l.Level, cell(l.Message))
	if l.Attributes != "" {
		text += " " + cell(l.Attributes)
	}
	return text
}

// newLogLevel makes `log level`.
func newLogLevel(s *session) *cobra.Command {
	var node string
	r := client.SetLogLevelRequest{}
	settings := false
	cmd := &cobra.Command{
		Use: "level [LEVEL]", Short: "Show the level of each node's log, or put another one in force for a while", Args: optionalArg("LEVEL"),
		Long: "Show the level of each node's log, or put debug, info, warn or error in force for a while, on one node or all. After that, and after\n" +
			"a restart, the level of the settings is in force again. Needs the tag administrator. Each node is asked at its own address.",
		Example: "  quoratectl log level\n  quoratectl log level debug --node node-1 --for 5m\n  quoratectl log level --reset",
		RunE: func(cmd *cobra.Command, args []string) error {
			if settings && len(args) > 0 {
				return usageError{errors.New("--reset and a level were given: choose one")}
			}
			if len(args) > 0 {
				r.Level = args[0]
			}
			return s.changeLevels(cmd, node, func(ctx context.Context, c *client.Client) (client.LogLevel, error) {
				if r.Level == "" && !settings {
					return c.LogLevel(ctx)
				}
				return c.SetLogLevel(ctx, r)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&node, "node", "", "only this node")
	f.DurationVar(&r.Duration, "for", 15*time.Minute, "for how long; at most 24h")
	f.BoolVar(&settings, "reset", false, "the level of the settings, at once")
	return cmd
}

// changeLevels asks or changes the level on one node, or on all for "", and prints the levels that are in force then.
func (s *session) changeLevels(cmd *cobra.Command, node string, ask func(context.Context, *client.Client) (client.LogLevel, error)) error {
	var chosen []string
	if node != "" {
		chosen = []string{node}
	}
	var one sync.Mutex
	var all []client.LogLevel
	err := s.onNodes(cmd, chosen, false, func(ctx context.Context, c *client.Client) error {
		l, err := ask(ctx, c)
		if err == nil {
			one.Lock()
			defer one.Unlock()
			all = append(all, l)
		}
		return err
	})
	slices.SortFunc(all, func(a, b client.LogLevel) int { return strings.Compare(a.Node, b.Node) })
	return errors.Join(printList(s, cmd.OutOrStdout(), []string{"node", "level", "of the settings", "until"}, all, func(l client.LogLevel) []string {
		until := "-"
		if !l.Until.IsZero() {
			until = l.Until.UTC().Format(time.RFC3339)
		}
		return []string{l.Node, l.Level, l.Settings, until}
	}), err)
}

// onNodes runs f at the same time with a client of each node at its own address, or only of the named one. --timeout
// bounds it unless f is to run for long. What fails on one node does not keep the others from it.
func (s *session) onNodes(cmd *cobra.Command, named []string, long bool, f func(context.Context, *client.Client) error) error {
	nodes, err := s.clientAddresses(cmd, named)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	failed := make([]error, len(nodes))
	for i, n := range nodes {
		running.Go(func() {
			if err := s.onNode(cmd, n.ClientAddress, long, f); err != nil && cmd.Context().Err() == nil {
				failed[i] = fmt.Errorf("node %q at %s: %w", n.ID, n.ClientAddress, err)
			}
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

// clientAddresses returns the nodes that are alive, or the named one.
func (s *session) clientAddresses(cmd *cobra.Command, named []string) (nodes []client.ClusterNode, err error) {
	err = s.with(cmd, func(ctx context.Context, c *client.Client) error {
		st, err := c.ClusterStatus(ctx)
		nodes = slices.DeleteFunc(st.Nodes, func(n client.ClusterNode) bool {
			return !n.Alive || len(named) > 0 && n.ID != named[0]
		})
		return err
	})
	if err == nil && len(nodes) == 0 {
		err = fmt.Errorf("node %q is not alive in the cluster: see quoratectl nodes ls", slices.Concat(named, []string{""})[0])
	}
	return nodes, err
}

// onNode runs f with a client of one address.
func (s *session) onNode(cmd *cobra.Command, address string, long bool, f func(context.Context, *client.Client) error) error {
	cfg := s.clientConfig()
	cfg.Addresses, cfg.FixedAddresses = []string{address}, true // or the client would go to another node
	ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
	defer cancel()
	c, err := client.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	if long {
		bound, end := s.bound(cmd.Context())
		defer end()
		return f(bound, c)
	}
	return f(ctx, c)
}

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// openBeside is open for what a node cannot do to itself. If the node of that name answers, it
// returns a client of the others, whose addresses that node knows.
func (s *session) openBeside(cmd *cobra.Command, node string) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), s.timeout)
	defer cancel()
	c, at, err := s.dialNode(ctx)
	if err != nil || at.Node != node {
		return c, err
	}
	c.Close()
	others, err := s.othersOf(&at)
	if err != nil {
		return nil, err
	}
	cfg := s.clientConfig()
	cfg.Addresses, cfg.FixedAddresses = others, true // or the client would come back to the node
	c, err = client.Dial(ctx, cfg)
	if err == nil {
		return c, nil
	}
	err = fmt.Errorf("%s, and no other node could be asked at %s: run this where one of them can be reached, "+
		"or give another address of one by --address and --fixed-addresses: %w", notByItself(node), strings.Join(others, ", "), err)
	if ctx.Err() != nil {
		err = unreachableError{err}
	}
	return nil, err
}

// othersOf returns the client addresses of the nodes beside the one that answered.
func (s *session) othersOf(at *client.ClusterStatus) (others []string, err error) {
	if s.fixed {
		return nil, fmt.Errorf("%s, and is at one of the addresses %s: give only addresses of other nodes with --fixed-addresses",
			notByItself(at.Node), strings.Join(s.addresses, ", "))
	}
	for _, n := range at.Nodes {
		if n.ID != at.Node && n.Alive && n.Refused == "" && n.ClientAddress != "" {
			others = append(others, n.ClientAddress)
		}
	}
	if len(others) == 0 {
		return nil, fmt.Errorf("%s, and knows of no other node that is alive: see quoratectl nodes ls", notByItself(at.Node))
	}
	return others, nil
}

func notByItself(node string) string {
	return fmt.Sprintf("node %q cannot carry out its own removal", node)
}

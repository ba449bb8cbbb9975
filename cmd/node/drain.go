package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/node/config"
)

// newDrain asks the node of this host to give up leadership while it serves clients.
func newDrain() *cobra.Command {
	var file, address string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Move all leadership off the node on this host, which takes no new work from then on",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if address == "" {
				cfg, err := config.Load(file, os.Environ(), nil)
				if err != nil {
					return err
				}
				if address, err = local(cfg.Listen.Client); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			c, err := client.New(client.Config{Addresses: []string{address}, FixedAddresses: true})
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Drain(ctx); err != nil {
				return fmt.Errorf("drain of %s: %w", address, err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "drained", address)
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "YAML file of the node, for its listen.client")
	cmd.Flags().StringVar(&address, "address", "", "client address of the node; empty: listen.client on this host")
	cmd.Flags().DurationVar(&timeout, "timeout", 60*time.Second, "give up after this")
	return cmd
}

// local returns how a listener is reached on its own host.
func local(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("listen.client %q: %w", listen, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

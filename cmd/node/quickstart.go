package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/node/quickstart"
)

// newQuickstart runs the show with this very program as the nodes.
func newQuickstart() *cobra.Command {
	var cfg quickstart.Config
	cmd := &cobra.Command{
		Use:   "quickstart",
		Short: "Start three nodes on loopback and show the whole idea with real clients",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Binary, cfg.Out, cfg.TTY = self, os.Stdout, terminal(os.Stdout)
			return quickstart.Run(cmd.Context(), cfg)
		},
	}
	cmd.Flags().BoolVar(&cfg.Keep, "keep", false, "leave the cluster running until Ctrl-C and print how to talk to it")
	cmd.Flags().StringVar(&cfg.Dir, "dir", "", "directory for the nodes' data and logs; empty: a temporary one")
	cmd.Flags().IntVar(&cfg.Messages, "messages", 0, "messages of the main job; 0: 100,000")
	return cmd
}

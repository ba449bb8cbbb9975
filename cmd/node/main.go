// Command node is a node of a Quorate cluster.
//
//	node --config node.yaml    run a node until SIGTERM, which drains it first
//	node drain                 move leadership off the node on this host
//	node recover               go on although a majority is lost for good
//	node certs                 make certificates for trying TLS out
//	node quickstart            three nodes on loopback show the whole idea
//	node version
//
// Settings come from flags, QUORATE_ variables, a YAML file and defaults, in this order;
// docs/configuration.md lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/cmd/node/serve"
)

// version is set by the linker.
var version = "dev"

// gcPercent is used unless GOGC says otherwise: a broker's heap is small beside what it
// moves, and half as many collections cost half the CPU.
const gcPercent = 200

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() { // a second signal ends the process at once
		<-ctx.Done()
		stop()
	}()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 1
	}
	return 0
}

func newCommand() *cobra.Command {
	var file string
	root := &cobra.Command{
		Use:           "node",
		Short:         "Run a node of a Quorate cluster",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(file, os.Environ(), cmd.Flags())
			if cfg != nil { // the settings could be read: tell all faults at once
				err = errors.Join(err, cfg.CheckFiles())
			}
			if err != nil {
				return err
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			return serve.Run(cmd.Context(), cfg, version, newLogger(cfg, os.Stderr, terminal(os.Stderr)))
		},
	}
	root.Flags().StringVarP(&file, "config", "c", "", "YAML file with settings")
	config.AddFlags(root.Flags())
	root.AddCommand(newDrain(), newRecover(), newCerts(), newQuickstart(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "quorate", version, runtime.Version())
			return err
		},
	})
	return root
}

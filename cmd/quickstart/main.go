// Command quickstart shows the whole idea on one machine: three node processes, real clients, dead
// letters, expiry, poison messages, recipes made of these, and the kill of a leader. It describes
// each step in plain words, checks every promise that it shows, and ends with a table of figures.
//
//	quickstart [--keep]          three nodes on loopback show the whole idea
//	quickstart certs --dir DIR   make certificates for trying TLS out
//
// The nodes are processes of the program quorate that stands beside it; see docs/quickstart.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/quorate/quorate"
)

func main() { os.Exit(run()) }

// run runs the command line. The first signal ends the show in order, the second the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() { // a second signal ends the process at once
		<-ctx.Done()
		stop()
	}()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		return 1
	}
	return 0
}

// newCommand makes the command line; the program of the nodes is looked for beside this one.
func newCommand() *cobra.Command {
	var cfg showConfig
	root := &cobra.Command{
		Use:           "quickstart",
		Version:       quorate.About("quickstart"),
		Short:         "Start three nodes on loopback and show the whole idea with real clients",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Binary == "" {
				self, err := os.Executable()
				if err != nil {
					return err
				}
				cfg.Binary = filepath.Join(filepath.Dir(self), "quorate")
			}
			if _, err := os.Stat(cfg.Binary); err != nil {
				return fmt.Errorf("the nodes' program does not exist: %w: name it with --node", err)
			}
			cfg.Out, cfg.TTY = os.Stdout, isatty.IsTerminal(os.Stdout.Fd())
			return runShow(cmd.Context(), cfg)
		},
	}
	f := root.Flags()
	f.BoolVar(&cfg.Keep, "keep", false, "leave the cluster running until Ctrl-C and print how to talk to it")
	f.StringVar(&cfg.Dir, "dir", "", "directory for the nodes' data and logs; empty: a temporary one")
	f.IntVar(&cfg.Messages, "messages", 0, "messages of the main job; 0: 100,000")
	f.StringVar(&cfg.Binary, "node", "", "program of the nodes; empty: quorate in this program's directory")
	root.AddCommand(newCerts())
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; try: %s --help", err, cmd.CommandPath())
	})
	return root
}

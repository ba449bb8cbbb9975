// Command quorate runs a node of a cluster, and administers it on its host.
//
//	quorate node --config node.yaml    run a node until SIGTERM, which drains it first
//	quorate config                     check and explain settings
//	quorate drain                      move leadership off the node on this host
//	quorate recover                    continue although a majority is lost for good
//	quorate --version                  version, commit and Go version
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
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/cmd/node/serve"
	"github.com/quorate/quorate/internal/logtail"
	"github.com/quorate/quorate/internal/manual"
)

func main() { os.Exit(run()) }

// run runs the command line and returns the exit code. The first signal asks for an orderly stop,
// the second ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() { // a second signal ends the process at once
		<-ctx.Done()
		stop()
	}()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "quorate:", err)
		return serve.ExitCode(err)
	}
	return 0
}

// newCommand makes the root command. It refuses words that are no command, with the nearest one as
// a hint, where cobra would print its help and succeed.
func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "quorate",
		Version:       quorate.About("quorate"),
		Short:         "Run a node of a Quorate cluster, and administer it",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newNode(), newConfig(), newDrain(), newRecover(), manual.Command())
	root.SuggestionsMinimumDistance, root.DisableFlagsInUseLine = 2, true
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; try: %s --help", err, cmd.CommandPath())
	})
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := "try: quorate --help, or quorate --version"
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("unknown command %q; %s", args[0], hint)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return root
}

// loadSettings reads the settings and checks the files in them. It returns all faults at once.
func loadSettings(file string, flags *pflag.FlagSet) (*config.Config, error) {
	cfg, err := loadWithoutFiles(file, flags)
	if cfg != nil { // continue only if the settings could be read
		err = errors.Join(err, cfg.CheckFiles())
	}
	return cfg, err
}

// loadWithoutFiles reads the settings, and looks at no file that they name. With faults it returns the settings too,
// if they could be read.
func loadWithoutFiles(file string, flags *pflag.FlagSet) (*config.Config, error) {
	return config.Load(file, os.Environ(), flags)
}

// newNode makes `quorate node`, which runs a node.
func newNode() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run a node until SIGTERM, which drains it first; it takes over changed settings and certificates",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			anew := serve.Anew{File: file, Level: &logtail.Level{}, Lines: logtail.New(), Load: func() (*config.Config, error) { return loadSettings(file, cmd.Flags()) }}
			cfg, err := anew.Load()
			if err == nil {
				err = trustFor(cfg)
			}
			if err != nil {
				return err
			}
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			anew.Asked = hangup
			log := newLogger(cfg, anew.Level, anew.Lines, os.Stderr, terminal(os.Stderr))
			for _, f := range config.SecretFlags(cmd.Flags()) {
				log.Warn("every user of this host can see the secret in a flag in the list of processes", "setting", f.Setting, "use", f.Instead)
			}
			return serve.Run(cmd.Context(), cfg, quorate.Version(), log, anew)
		},
	}
	addSettings(cmd, &file)
	return cmd
}

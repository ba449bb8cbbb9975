package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/node/config"
)

// newConfig makes `quorate config`, which looks at settings as a node with the same file, environment and
// flags would take them. It starts nothing, and changes nothing.
func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and explain settings, and show what a node would run with",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigValidate(), newConfigEffective(), newConfigExplain())
	return cmd
}

// newConfigValidate makes `quorate config validate`.
func newConfigValidate() *cobra.Command {
	var file string
	var withFiles bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Report all that is wrong with the settings, as a node would at its start",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := loadSettings
			if !withFiles {
				load = loadWithoutFiles
			}
			cfg, err := load(file, cmd.Flags())
			if err != nil {
				return err
			}
			if withFiles {
				for _, s := range cfg.OpenSecrets() {
					_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: every user of this host can read or change %s, mode %v: try chmod o= %s\n", s.Setting, s.File, s.Mode, s.File)
				}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the settings are valid")
			return err
		},
	}
	cmd.Flags().BoolVar(&withFiles, "files", true, "check the certificates, keys and other files too; false on a host that is not the node's")
	addSettings(cmd, &file)
	return cmd
}

// setting is one setting as a node would take it.
type setting struct {
	Setting string `json:"setting"`
	Value   any    `json:"value"`
	From    string `json:"from"`
}

// newConfigEffective makes `quorate config effective`.
func newConfigEffective() *cobra.Command {
	var file, output string
	var changed bool
	cmd := &cobra.Command{
		Use:   "effective",
		Short: "Show the value of each setting, and where it comes from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("--output %q: want table or json", output)
			}
			cfg, fault := loadWithoutFiles(file, cmd.Flags())
			if cfg == nil {
				return fault
			}
			from, err := config.Origins(file, os.Environ(), cmd.Flags())
			if err != nil {
				return err
			}
			var all []setting
			for _, k := range config.Keys() {
				if s := settingOf(k, cfg, from); !changed || s.From != fromDefault {
					all = append(all, s)
				}
			}
			return errors.Join(printSettings(cmd.OutOrStdout(), all, output), fault)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	cmd.Flags().BoolVar(&changed, "changed", false, "only settings that are not left at their default")
	addSettings(cmd, &file)
	return cmd
}

// newConfigExplain makes `quorate config explain`.
func newConfigExplain() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "explain SETTING ...",
		Short:   "Explain settings: meaning, type, default, names, and the value that a node would take",
		Example: "  quorate config explain timeouts.suspect\n  quorate config explain cluster.reconcile --config node.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var keys []config.Key
			for _, name := range args {
				found, err := config.Find(name)
				if err != nil {
					return err
				}
				keys = append(keys, found...)
			}
			cfg, fault := loadWithoutFiles(file, cmd.Flags())
			from, err := config.Origins(file, os.Environ(), cmd.Flags())
			if err != nil {
				return err
			}
			for i, k := range keys {
				if i > 0 {
					_, _ = fmt.Fprintln(cmd.OutOrStdout())
				}
				if err := explainSetting(cmd.OutOrStdout(), k, cfg, from); err != nil {
					return err
				}
			}
			if cfg == nil {
				return fault
			}
			return nil // validate reports what is wrong with other settings
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, k := range config.Keys() {
				names = append(names, k.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	addSettings(cmd, &file)
	return cmd
}

// addSettings adds the flags by which a node gets its settings.
func addSettings(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "YAML file with settings")
	config.AddFlags(cmd.Flags())
}

// fromDefault is the origin of settings that nobody has set.
const fromDefault = "default"

// settingOf returns a setting as the node would take it, without secrets.
func settingOf(k config.Key, cfg *config.Config, from map[string]string) setting {
	return setting{Setting: k.Name, Value: cfg.Shown(k), From: from[k.Name]}
}

// text shows a value in one line.
func text(value any) string {
	if list, is := value.([]string); is {
		value = strings.Join(list, ",")
	}
	if s := fmt.Sprint(value); s != "" {
		return s
	}
	return "(empty)"
}

// printSettings writes a table or JSON.
func printSettings(w io.Writer, all []setting, output string) error {
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "SETTING\tVALUE\tFROM")
	for _, s := range all {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", s.Setting, text(s.Value), s.From)
	}
	return t.Flush()
}

// explainSetting writes what there is to know about a setting; cfg is nil if values have a wrong type.
func explainSetting(w io.Writer, k config.Key, cfg *config.Config, from map[string]string) error {
	applies := "from the node's next start"
	if k.Live() {
		applies = "without a restart"
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "%s\n  %s\n", k.Name, strings.ReplaceAll(k.Help, "`", ""))
	_, _ = fmt.Fprintf(t, "  type\t%s\n  default\t%s\n  variable\t%s\n  flag\t--%s\n  applies\t%s\n", k.Type(), text(k.Default), k.Env(), k.Name, applies)
	if cfg != nil {
		s := settingOf(k, cfg, from)
		_, _ = fmt.Fprintf(t, "  value\t%s\n  from\t%s\n", text(s.Value), s.From)
	}
	return t.Flush()
}

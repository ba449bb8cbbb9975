package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// suggestionDistance is how many letters of a word may be wrong for a command to be suggested.
const suggestionDistance = 2

// refuseUnknown makes a group of commands, and its subgroups, refuse words that are not their
// commands; cobra itself would show the help and succeed. Without a word, the group shows its help.
func refuseUnknown(group *cobra.Command) {
	if group.Name() == "help" {
		group.Args = refuseUnknownHelp
	}
	if !group.HasSubCommands() {
		return
	}
	group.SuggestionsMinimumDistance = suggestionDistance
	group.DisableFlagsInUseLine = true
	group.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return nil
	}
	group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, sub := range group.Commands() {
		refuseUnknown(sub)
	}
}

// refuseUnknownHelp does the same for the words after help.
func refuseUnknownHelp(cmd *cobra.Command, args []string) error {
	found, rest, err := cmd.Root().Find(args)
	if err == nil && found.HasSubCommands() && len(rest) > 0 {
		err = unknownCommand(found, rest[0])
	}
	return err
}

// unknownCommand suggests similar commands, or else lists all.
func unknownCommand(group *cobra.Command, word string) error {
	if near := group.SuggestionsFor(word); len(near) > 0 {
		return usageError{fmt.Errorf("unknown command %q for %q; did you mean %s?", word, group.CommandPath(), quoted(near, " or "))}
	}
	var all []string
	for _, sub := range group.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	return usageError{fmt.Errorf("unknown command %q for %q; there are %s", word, group.CommandPath(), quoted(all, ", "))}
}

// quoted joins the names, each in quotes.
func quoted(names []string, between string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(all, between)
}

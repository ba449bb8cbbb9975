// Package manual writes the manual pages of a program from its commands.
package manual

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Command returns the hidden command `manual DIR`, which writes a page for each command of its root into a directory.
// The pages bear the time in SOURCE_DATE_EPOCH, so that builds can be repeated.
func Command() *cobra.Command {
	return &cobra.Command{
		Use: "manual DIR", Short: "Write manual pages into a directory", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: strings.ToUpper(root.Name()), Section: "1", Source: "Quorate", Manual: "Quorate"}
			return errors.Join(os.MkdirAll(args[0], 0o755), doc.GenManTree(root, header, args[0]))
		},
	}
}

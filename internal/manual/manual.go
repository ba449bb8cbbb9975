// Package manual writes the manual pages of a program from its commands.
package manual

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

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
			var err error
			if header.Date, err = date(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
				return err
			}
			return errors.Join(os.MkdirAll(args[0], 0o755), doc.GenManTree(root, header, args[0]))
		},
	}
}

// date returns the time of an epoch in UTC, and nil for "": cobra would show the month of the machine's time zone.
func date(epoch string) (*time.Time, error) {
	if epoch == "" {
		return nil, nil // cobra takes nil for the time of the build
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH is %q, want seconds since 1970: %w", epoch, err)
	}
	t := time.Unix(seconds, 0).UTC()
	return &t, nil
}

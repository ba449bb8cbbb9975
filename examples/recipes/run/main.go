// Command run runs the recipes of docs/dead-lettering.md against a cluster, all or those named:
//
//	go run ./examples/recipes/run ladder backoff
//
// QUORATE_ADDRESSES names the nodes; without it, the quickstart's first one is asked.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/examples/recipes"
)

const timeout = 5 * time.Minute

// main exits with 1 if a recipe fails.
func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "recipes:", err)
		os.Exit(1)
	}
}

// run runs the recipes with these names, or all, on a running cluster.
func run(names []string) error {
	addresses := []string{"127.0.0.1:7070"}
	if given := os.Getenv("QUORATE_ADDRESSES"); given != "" {
		addresses = strings.Split(given, ",")
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addresses: addresses})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, r := range recipes.All() {
		if len(names) > 0 && !slices.Contains(names, r.Name) {
			continue
		}
		_, _ = fmt.Fprintln(os.Stdout, r.Title)
		say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, "   "+format+"\n", args...) }
		if err := r.Run(ctx, c, say); err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	return nil
}

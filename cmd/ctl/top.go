package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

const (
	// topQueues is how many queues a screen can be scrolled over.
	topQueues = 500
	// onceQueues is how many --once prints.
	onceQueues = 50
	// onceWait is how long --once waits for rates, which need two rounds of questions to the nodes.
	onceWait = 8 * time.Second
)

// newTop makes `top`.
func newTop(s *session) *cobra.Command {
	var once, asJSON bool
	r := client.WatchClusterRequest{}
	cmd := &cobra.Command{
		Use: "top", Short: "Show the nodes and the busiest queues, once a second; needs the tag monitoring", Args: exactArgs(),
		Long:    "Show the nodes and the busiest queues, once a second.\n\nKeys: q ends it, s chooses what the first queues have most of, / filters by a part of vhost/queue, arrows and page keys scroll.",
		Example: "  quoratectl top\n  quoratectl top --sort ready --filter orders\n  quoratectl top --once | head -20\n  quoratectl top --json | jq .rates.publish",
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one sample, as soon as rates are known")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the same as --output json: an object for each sample")
	cmd.Flags().StringVar(&r.Sort, "sort", topSorts()[0], "what the first queues have most of: rate, ready, unacked or dead_letters")
	cmd.Flags().StringVar(&r.Filter, "filter", "", "only queues whose vhost/queue contains this, in any case")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if asJSON {
			s.output = outputJSON
		}
		out := cmd.OutOrStdout()
		onScreen := !once && s.output == outputTable
		if !slices.Contains(topSorts(), r.Sort) {
			return usageError{fmt.Errorf("--sort %q: want one of %s", r.Sort, strings.Join(topSorts(), ", "))}
		}
		if onScreen && !isTerminal(out) {
			return usageError{errors.New("the output is no terminal: use --once for one sample, or --json for a line each second")}
		}
		ctx, c, end, err := s.begin(cmd)
		if err != nil {
			return err
		}
		defer end()
		switch {
		case onScreen:
			r.Limit = topQueues
			return runTop(ctx, c, r, os.Stdin, out)
		case once:
			r.Limit = onceQueues
			return s.topOnce(ctx, c, r, out)
		}
		r.Limit = onceQueues
		return c.WatchCluster(ctx, r, func(x client.ClusterSample) error { return s.encodeNext(out, plain(x)) })
	}
	return cmd
}

// sampled returns the first sample with rates, or the newest one when they take longer than that.
func sampled(ctx context.Context, c *client.Client, r client.WatchClusterRequest, patience time.Duration) (last client.ClusterSample, err error) {
	began := time.Now()
	err = c.WatchCluster(ctx, r, func(x client.ClusterSample) error {
		if last = x; x.RatesOver > 0 || time.Since(began) > patience {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return last, err
}

// topOnce prints one sample, with rates if they do not take too long.
func (s *session) topOnce(ctx context.Context, c *client.Client, r client.WatchClusterRequest, out io.Writer) error {
	last, err := sampled(ctx, c, r, onceWait)
	if err != nil {
		return err
	}
	if s.output != outputTable {
		return s.encode(out, plain(last))
	}
	for _, line := range topHead(&last) {
		printf(out, "%s\n", line)
	}
	printf(out, "\n")
	header, rows := topNodes(&last)
	if err := printRows(out, header, rows...); err != nil {
		return err
	}
	printf(out, "\n")
	header, rows = topQueueRows(&last)
	return printRows(out, header, rows...)
}

// topWatch sends samples for a request to out until ctx ends; the newest one counts. It returns what ended it.
func topWatch(ctx context.Context, c *client.Client, r client.WatchClusterRequest, out chan client.ClusterSample) error {
	return c.WatchCluster(ctx, r, func(x client.ClusterSample) error {
		select {
		case <-out: // nobody has taken the one before
		default:
		}
		out <- x
		return nil
	})
}

// runTop shows samples on a terminal until q, ctx, or an error that another node would give as well.
func runTop(ctx context.Context, c *client.Client, r client.WatchClusterRequest, in *os.File, out io.Writer) error {
	t, err := openTerminal(in, out)
	if err != nil {
		return err
	}
	defer t.restore()
	screen := newTopScreen(r)
	for again := true; again; {
		again, err = topRequest(ctx, c, t, screen)
	}
	if ctx.Err() != nil {
		return nil // the user has ended it
	}
	return err
}

// topRequest shows samples until the user chooses other queues, which it reports, or ends.
func topRequest(ctx context.Context, c *client.Client, t *terminal, screen *topScreen) (again bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	samples, ended := make(chan client.ClusterSample, 1), make(chan error, 1)
	request := screen.request
	var watching sync.WaitGroup
	watching.Go(func() { ended <- topWatch(ctx, c, request, samples) })
	defer watching.Wait()
	defer stop()
	tick := time.NewTicker(resizeEvery)
	defer tick.Stop()
	for {
		t.draw(screen.lines)
		select {
		case x := <-samples:
			screen.show(x, time.Now())
		case k := <-t.keys:
			if screen.press(k) {
				return false, nil
			}
			if screen.request != request {
				return true, nil
			}
		case <-tick.C: // the size of the terminal may have changed, and the age of the sample has
		case err := <-ended:
			return false, err
		case <-ctx.Done():
			return false, nil
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/quorate/quorate/bench/peers"
)

// turn is what one build did under the workloads, over both protocols.
type turn []peers.Figures

// runTurns measures another build and this one by turns, and prints how they compare. A machine is not as fast at one
// moment as at the next, so only what both did in the same turn is compared. Nothing is stored.
func runTurns(ctx context.Context, o options, only string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the run took more than -limit=%s", o.limit))
	defer cancel()
	if only == "" {
		only = "native,quorate"
	}
	builds := [...]string{o.against, o.binary} // which may be the same, to see how much turns differ by themselves
	var turns [len(builds)][]turn
	for i := range o.turns {
		for k := range builds {
			b := (i + k) % len(builds) // who comes second finds warmer caches, or a fuller disk
			t, err := takeTurn(ctx, o, builds[b], only)
			if err != nil {
				return fmt.Errorf("turn %d of %s: %w", i+1, builds[b], err)
			}
			turns[b] = append(turns[b], t)
		}
	}
	return printTurns(os.Stdout, turns[0], turns[1])
}

// takeTurn measures one build.
func takeTurn(ctx context.Context, o options, binary, only string) (turn, error) {
	c := peers.Config{Binary: binary, Only: only, Time: o.peersTime, Exactly: aimedLoads(), Filter: o.filter, Log: os.Stderr, Stuck: o.results}
	if o.quick {
		c.Time = quickTime
	}
	report, err := peers.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	return report.Figures, nil
}

// compared are the figures that turns compare.
func compared() []struct {
	name string
	of   func(peers.Figures) float64
} {
	return []struct {
		name string
		of   func(peers.Figures) float64
	}{
		{"servers, s/million", func(f peers.Figures) float64 { return f.CPU }},
		{"client, s/million", func(f peers.Figures) float64 { return f.ClientCPU }},
		{"messages/s", func(f peers.Figures) float64 { return f.Consumed }},
		{"confirm p50, ms", func(f peers.Figures) float64 { return f.ConfirmP50 }},
		{"confirm p99, ms", func(f peers.Figures) float64 { return f.ConfirmP99 }},
	}
}

// printTurns writes the ratios of this build to the other one: the median of all turns, and the least and the most of one.
func printTurns(to io.Writer, others, these []turn) error {
	if len(others) == 0 || len(others) != len(these) {
		return errors.New("there must be as many turns of one build as of the other")
	}
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ratio\tleast to most\tworkload\tsystem\tfigure\tother build\tthis build") // Flush returns the first error
	for k, f := range others[0] {
		for _, c := range compared() {
			var other, this, ratio []float64
			for i := range others {
				if k >= len(others[i]) || k >= len(these[i]) || these[i][k].Workload != f.Workload || these[i][k].System != f.System {
					return fmt.Errorf("turn %d lacks %s, %s", i+1, f.Workload, f.System)
				}
				x, y := c.of(others[i][k]), c.of(these[i][k])
				other, this, ratio = append(other, x), append(this, y), append(ratio, y/x)
			}
			_, _ = fmt.Fprintf(w, "%s\t%s to %s\t%s\t%s\t%s\t%s\t%s\n", short(median(ratio)), short(slices.Min(ratio)), short(slices.Max(ratio)),
				f.Workload, f.System, c.name, short(median(other)), short(median(this)))
		}
	}
	return w.Flush()
}

// median returns the middle one of some values, or the mean of the middle two.
func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	n := len(of)
	return (of[(n-1)/2] + of[n/2]) / 2
}

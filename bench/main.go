// Command bench measures whole systems: three node processes on this machine, real
// clients over gRPC. It prints a table and writes the rows as JSON for a figure to be
// followed over time. Figures of one machine compare with those of the same machine only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// Row is one figure.
type Row struct {
	Name         string   `json:"name"`
	Value        float64  `json:"value"`
	Unit         string   `json:"unit"`
	ComparedWith string   `json:"compared_with"`
	Ratio        *float64 `json:"ratio"` // of Value to what it is compared with; null: nothing
	Aim          string   `json:"aim"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.binary, "binary", "../bin/node", "the node's program")
	flag.StringVar(&o.results, "results", "results", "directory for the rows as JSON; empty: none")
	flag.IntVar(&o.messages, "messages", 300_000, "messages of each throughput run")
	flag.IntVar(&o.inFlight, "in-flight", 1024, "unanswered messages of each of three publishers")
	flag.IntVar(&o.rate, "rate", 2000, "messages per second of the latency run")
	flag.DurationVar(&o.latencyTime, "latency-time", 5*time.Second, "length of the latency run")
	flag.Parse()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	binary, results          string
	messages, inFlight, rate int
	latencyTime              time.Duration
}

// run starts a cluster and measures each size of body.
func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := chaos.NewCluster(chaos.ClusterConfig{Binary: o.binary, Dir: dir, Name: "bench", Settings: "log:\n  level: warn\n"})
	if err != nil {
		return err
	}
	defer cluster.Kill()
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := cluster.Start(starting); err != nil {
		return err
	}
	var rows []Row
	for _, size := range []int{12, 1024} {
		measured, err := measure(ctx, cluster, o, size)
		if err != nil {
			return fmt.Errorf("bodies of %d bytes: %w", size, err)
		}
		rows = append(rows, measured...)
	}
	if err := printTable(rows); err != nil {
		return err
	}
	return write(o.results, rows)
}

// measure runs everything for one size of body.
func measure(ctx context.Context, cluster *chaos.Cluster, o options, size int) ([]Row, error) {
	queue := fmt.Sprintf("bench-%d", size)
	admin, err := client.Dial(ctx, client.Config{Addresses: cluster.Addresses()})
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if _, err := admin.DeclareQueue(ctx, client.Queue{Name: queue}); err != nil {
		return nil, err
	}
	t, err := throughput(ctx, cluster, o, queue, size)
	if err != nil {
		return nil, err
	}
	l, err := latency(ctx, cluster, o, queue, size)
	if err != nil {
		return nil, err
	}
	name := func(s string) string { return fmt.Sprintf("end to end, %d B, %s", size, s) }
	perMillion := 1e6 / float64(o.messages)
	return []Row{
		{Name: name("confirmed"), Value: float64(o.messages) / t.confirmed.Seconds(), Unit: "messages/s", Aim: "higher"},
		{Name: name("consumed and acked"), Value: float64(o.messages) / t.consumed.Seconds(), Unit: "messages/s", Aim: "higher"},
		{Name: name("CPU of three nodes"), Value: t.cpu.Seconds() * perMillion, Unit: "s/million messages", Aim: "lower"},
		{Name: name("confirm p50, saturated"), Value: milliseconds(t.confirms.ValueAtQuantile(50)), Unit: "ms", Aim: "lower"},
		{Name: name("confirm p99, saturated"), Value: milliseconds(t.confirms.ValueAtQuantile(99)), Unit: "ms", Aim: "lower"},
		{Name: name(fmt.Sprintf("confirm p50, %d/s", o.rate)), Value: milliseconds(l.ValueAtQuantile(50)), Unit: "ms", Aim: "lower"},
		{Name: name(fmt.Sprintf("confirm p99, %d/s", o.rate)), Value: milliseconds(l.ValueAtQuantile(99)), Unit: "ms", Aim: "lower"},
	}, nil
}

func milliseconds(micros int64) float64 { return float64(micros) / 1000 }

func printTable(rows []Row) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintf(w, "%s\t%.1f\t%s\n", r.Name, r.Value, r.Unit); err != nil {
			return err
		}
	}
	return w.Flush()
}

// write stores the rows.
func write(dir string, rows []Row) error {
	if dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "end_to_end.json"), append(text, '\n'), 0o640)
}

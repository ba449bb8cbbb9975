package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// Bounds of the end-to-end part.
const (
	startTimeout = time.Minute
	syncCount    = 500  // timed appends and fsyncs
	syncBytes    = 4096 // of each
)

// endToEnd measures a cluster with its data in memory, then one with its data on disk, and compares
// the two.
func endToEnd(ctx context.Context, o options) ([]Row, error) {
	sync, err := syncTimes(os.TempDir())
	if err != nil {
		return nil, err
	}
	rows := []Row{
		{Name: "disk, append 4 KiB and fsync, p50", Value: milliseconds(sync.ValueAtQuantile(50)), Unit: "ms", Aim: lower},
		{Name: "disk, append 4 KiB and fsync, p99", Value: milliseconds(sync.ValueAtQuantile(99)), Unit: "ms", Aim: lower},
	}
	var inMemory []Row
	for _, c := range []struct {
		parent, label string
		memory        bool
	}{
		{o.memory, "end to end, in memory", true},
		{"", "end to end", false},
	} {
		if c.memory && !isDirectory(c.parent) {
			continue
		}
		measured, err := measureCluster(ctx, o, c.parent, c.label)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.label, err)
		}
		for i := range inMemory { // 0: no comparison without a directory in memory
			measured[i].ComparedWith = inMemory[i].Name
		}
		if c.memory {
			inMemory = measured
		}
		rows = append(rows, measured...)
	}
	return rows, compare(rows)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// syncTimes measures the disk under dir, in microseconds.
func syncTimes(dir string) (h *hdrhistogram.Histogram, err error) {
	f, err := os.CreateTemp(dir, "quorate-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	r := newRecorder()
	block := make([]byte, syncBytes)
	for range syncCount {
		begin := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		r.record(time.Since(begin))
	}
	return r.h, nil
}

// measureCluster starts a cluster with its data in a temporary directory in parent, and measures
// each size of body. The rows have the same order at every call.
func measureCluster(ctx context.Context, o options, parent, label string) (rows []Row, err error) {
	dir, err := os.MkdirTemp(parent, "quorate-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := chaos.NewCluster(chaos.ClusterConfig{
		Binary: o.binary, Dir: filepath.Clean(dir), Name: "bench",
		Settings: "log:\n  level: warn\n",
	})
	if err != nil {
		return nil, err
	}
	defer cluster.Kill()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := cluster.Start(starting); err != nil {
		return nil, err
	}
	for _, size := range []int{12, 1024} {
		measured, err := measure(ctx, cluster, o, label, size)
		if err != nil {
			return nil, fmt.Errorf("bodies of %d bytes: %w", size, err)
		}
		rows = append(rows, measured...)
	}
	return rows, nil
}

// measure runs all measurements for one size of body.
func measure(ctx context.Context, cluster *chaos.Cluster, o options, label string, size int) ([]Row, error) {
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
	messages := float64(t.messages)
	row := func(figure string, value float64, unit, aim string) Row {
		return Row{Name: fmt.Sprintf("%s, %d B, %s", label, size, figure), Value: value, Unit: unit, Aim: aim}
	}
	at := func(h *hdrhistogram.Histogram, quantile float64, when string) Row {
		return row(fmt.Sprintf("confirm p%g, %s", quantile, when), milliseconds(h.ValueAtQuantile(quantile)), "ms", lower)
	}
	paced := fmt.Sprintf("%d/s", o.rate)
	return []Row{
		row("confirmed", messages/t.confirmed.Seconds(), "messages/s", higher),
		row("consumed and acked", messages/t.consumed.Seconds(), "messages/s", higher),
		row("CPU of three nodes", t.cpu.Seconds()*1e6/messages, "s/million messages", lower),
		at(t.confirms, 50, "saturated"), at(t.confirms, 99, "saturated"),
		at(l, 50, paced), at(l, 99, paced),
	}, nil
}

func milliseconds(micros int64) float64 { return float64(micros) / 1000 }

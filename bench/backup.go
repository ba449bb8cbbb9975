package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Bounds of the rows of backups.
const (
	backupTurns   = 3    // a backup and a quiet time of this length each; the figures cover all of them together
	backupBytes   = 1024 // of a body
	backupQueue   = "full"
	quickMessages = 20_000
)

// runBackups measures backups of a queue, alone and beside publishers of another one, prints the table and stores the rows.
func runBackups(ctx context.Context, o options) error {
	if o.quick {
		o.messages, o.time = min(o.messages, quickMessages), quickTime
	}
	m := measurement{title: "Backups, three node processes", file: "backup", whole: !o.quick}
	m.parts = []measured{{"backup", func(ctx context.Context) ([]engineRow, error) { return backupRows(ctx, o) }}}
	return m.run(ctx, o)
}

// backupWorld is a cluster with a queue of messages, and a queue whose publisher is timed.
type backupWorld struct {
	o       options
	cluster *chaos.Cluster
	admin   *client.Client
	archive string // directory for the backups
}

// backupRows fills a queue, and then measures backups alone, backups beside a publisher, and quiet times by turns.
func backupRows(ctx context.Context, o options) (rows []engineRow, err error) {
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	parent := o.memory // a disk of its own, as far as the nodes see
	if !isDirectory(parent) {
		parent = dir
	}
	w := &backupWorld{o: o}
	if w.archive, err = os.MkdirTemp(parent, "quorate-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(w.archive)) }()
	w.cluster, err = chaos.NewCluster(chaos.ClusterConfig{
		Binary: o.binary, Dir: filepath.Clean(dir), Name: "bench", Settings: "log:\n  level: warn\n" + o.settings,
	})
	if err != nil {
		return nil, err
	}
	defer w.cluster.Kill()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := w.cluster.Start(starting); err != nil {
		return nil, err
	}
	if w.admin, err = client.Dial(ctx, client.Config{Addresses: w.cluster.Addresses()}); err != nil {
		return nil, err
	}
	defer w.admin.Close()
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	quiet, during, alone := newBackupTimes(), newBackupTimes(), time.Duration(0)
	for range backupTurns {
		began := time.Now()
		if err := w.backup(ctx, "alone"); err != nil {
			return nil, err
		}
		alone += time.Since(began)
		before := during.took
		if err := w.beside(ctx, during, func() error { return w.backup(ctx, "beside") }); err != nil {
			return nil, err
		}
		if err := w.remove("alone", "beside"); err != nil {
			return nil, err
		}
		took := during.took - before // as long, so that what happens rarely is in both
		if err := w.beside(ctx, quiet, func() error { return wait.For(ctx, took) }); err != nil {
			return nil, err
		}
	}
	return backupFigures(o.messages, alone, quiet, during), nil
}

// fill declares the queues and publishes the messages, through all nodes.
func (w *backupWorld) fill(ctx context.Context) error {
	for _, q := range []string{backupQueue, bystander} {
		if _, err := w.admin.DeclareQueue(ctx, client.Queue{Name: q}); err != nil {
			return err
		}
	}
	clients, hangUp, err := dialEach(ctx, w.cluster)
	if err != nil {
		return err
	}
	defer hangUp()
	var all sync.WaitGroup
	errs := make([]error, len(clients))
	share := w.o.messages / len(clients)
	for i, c := range clients {
		all.Go(func() {
			n := share
			if i == 0 {
				n = w.o.messages - share*(len(clients)-1)
			}
			l := load{queue: backupQueue, size: backupBytes, inFlight: w.o.inFlight, during: moveTimeout, limit: int64(n)}
			_, errs[i] = publish(ctx, c, l, newRecorder())
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// backup makes a backup of the full queue with quoratectl, in a process of its own as operators do.
func (w *backupWorld) backup(ctx context.Context, name string) error {
	place := filepath.Join(w.archive, name)
	cmd := exec.CommandContext(ctx, w.o.ctl, "-a", strings.Join(w.cluster.Addresses(), ","), "backup", "create", place, "--queue", backupQueue)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	if want := fmt.Sprint(w.o.messages); !strings.Contains(string(out), want) {
		return fmt.Errorf("the backup does not have %s messages: %s", want, out)
	}
	return nil
}

// remove removes backups: those of all turns would fill the memory.
func (w *backupWorld) remove(names ...string) error {
	var errs []error
	for _, n := range names {
		errs = append(errs, os.RemoveAll(filepath.Join(w.archive, n)))
	}
	return errors.Join(errs...)
}

// backupTimes are the figures of one kind of turn, added up.
type backupTimes struct {
	confirms *recorder // of the bystander's publisher
	took     time.Duration
	cpu      time.Duration // of three nodes
}

func newBackupTimes() *backupTimes { return &backupTimes{confirms: newRecorder()} }

// beside does something while a publisher sends messages to the bystander at a modest rate.
func (w *backupWorld) beside(ctx context.Context, t *backupTimes, do func() error) error {
	over := make(chan struct{})
	var publishing error
	var all sync.WaitGroup
	before, err := cpu(w.cluster)
	if err != nil {
		return err
	}
	all.Go(func() {
		l := load{queue: bystander, size: backupBytes, inFlight: w.o.inFlight, rate: w.o.rate, during: moveTimeout, over: over}
		_, publishing = publish(ctx, w.admin, l, t.confirms)
	})
	begin := time.Now()
	err = do()
	t.took += time.Since(begin)
	after, counting := cpu(w.cluster)
	t.cpu += after - before
	close(over)
	all.Wait()
	_, purging := w.admin.PurgeQueue(ctx, client.QueueRef{Name: bystander})
	return errors.Join(err, counting, publishing, purging)
}

// backupFigures makes the rows.
func backupFigures(messages int, alone time.Duration, quiet, during *backupTimes) []engineRow {
	label := fmt.Sprintf("%d of %d B: ", messages, backupBytes)
	rate := func(took time.Duration) float64 {
		return float64(backupTurns*messages*backupBytes) / 1e6 / took.Seconds()
	}
	at := func(h *hdrhistogram.Histogram, q float64) float64 { return milliseconds(h.ValueAtQuantile(q)) }
	cores := func(t *backupTimes) float64 { return t.cpu.Seconds() / t.took.Seconds() }
	return []engineRow{
		atLeast(100).row(label+"backup, alone", "MB/s", rate(alone)),
		goal{}.row(label+"backup, beside a publisher", "MB/s", rate(during.took)),
		goal{}.row("publisher's confirm p50, quiet", "ms", at(quiet.confirms.h, 50)),
		goal{}.row("publisher's confirm p50, while a backup runs", "ms", at(during.confirms.h, 50)),
		goal{}.row("publisher's confirm p99, quiet", "ms", at(quiet.confirms.h, 99)),
		goal{}.row("publisher's confirm p99, while a backup runs", "ms", at(during.confirms.h, 99)),
		atMost(1.5).row("publisher's confirm p99, while a backup runs ÷ quiet", "×", at(during.confirms.h, 99)/at(quiet.confirms.h, 99)),
		goal{}.row("CPU of three nodes, quiet", "cores", cores(quiet)),
		goal{}.row("CPU of three nodes, while a backup runs", "cores", cores(during)),
	}
}

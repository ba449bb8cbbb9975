// Command mutants plants faults into the product, one at a time, and looks for each in three ways:
// by the tests of the packages concerned, by the simulation, and by real processes under faults. A
// way of testing that lets a fault pass which it should find is a hole, and a failure of the run. The
// faults are the patches in testdata; docs/mutants.md has what found them, and how to add one.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	only, ways  string
	write, rest bool
}

// main exits with 1 if a mutant was not found where its header says that it is, or does not apply.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.only, "only", "", "names of mutants, with commas between; empty: all")
	flag.StringVar(&o.ways, "ways", "", "unit, sim, chaos, with commas between; empty: all")
	flag.BoolVar(&o.rest, "rest", false, "look only for what "+document+" has no answer for")
	flag.BoolVar(&o.write, "write", false, "write what was found into "+document)
	flag.Parse()
	root, err := os.Getwd()
	if err == nil {
		err = run(ctx, os.Stdout, root, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1) //nolint:gocritic // the context has nothing to clean up
	}
}

// run looks for the mutants that are named in the ways that are, and returns what is wrong.
func run(ctx context.Context, to io.Writer, root string, o options) error {
	all, err := readMutants(root)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !named(o.only, m.name) })
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant is named %q: %s has them", o.only, patches)
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer clean(dir)
	there, err := readTable(root)
	if err != nil {
		return err
	}
	t := table{}
	d := &detector{root: root, dir: dir, baselines: map[string]error{}}
	var errs []error
	for i := range chosen {
		errs = append(errs, lookFor(ctx, to, d, &chosen[i], t, there, o))
		if ctx.Err() != nil {
			break
		}
		if o.write {
			errs = append(errs, t.write(root, all))
		}
	}
	say(to, "%s\n", t.summary(all))
	return errors.Join(errs...)
}

// named reports whether a name is in a list; the empty list has all.
func named(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// lookFor looks for one mutant, and notes in the table what found it. there is what was found earlier.
func lookFor(ctx context.Context, to io.Writer, d *detector, m *mutant, t, there table, o options) error {
	dir := filepath.Join(d.dir, m.name)
	overlay, err := m.plant(ctx, d.root, dir)
	if err != nil {
		return err
	}
	defer clean(dir)
	var errs []error
	for _, k := range kinds() {
		p := m.how[k]
		if p.never != "" {
			t.set(m.name, k, "– "+p.never)
			continue
		}
		if !named(o.ways, string(k)) || o.rest && there.cell(m.name, k) != unknown {
			continue
		}
		begin := time.Now()
		by, err := d.look(ctx, m, k, overlay)
		switch {
		case err != nil:
			err = fmt.Errorf("mutant %s, %s: %w", m.name, k, err)
		case by != "":
			t.set(m.name, k, by)
		case p.misses != "":
			t.set(m.name, k, "not found: "+p.misses)
		default:
			t.set(m.name, k, "**not found**")
			err = fmt.Errorf("mutant %s (%s) is not found by %s: %s", m.name, m.does, k, strings.Join(p.args, " "))
		}
		errs = append(errs, err)
		found := cmp.Or(by, "not found")
		if err != nil {
			found = err.Error()
		}
		say(to, "%-28s %-5s %6.1fs  %s\n", m.name, k, time.Since(begin).Seconds(), found)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func say(to io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(to, format, args...) // an error in writing to the screen changes nothing
}

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/netns"
	"github.com/quorate/quorate/chaos/workload"
)

// List prints the targets, the faults and the workloads, and what this machine and the target
// cannot have, with the reasons.
func List(ctx context.Context, o Options) error {
	p, err := o.plan()
	if err != nil {
		return &Failure{ExitUsage, err}
	}
	if p.Target == namespaces && !netns.Inside() && netns.Possible() == nil {
		return again(ctx, o.Args)
	}
	o.print("targets:\n")
	for _, d := range targets() {
		o.printKind(d.name, d.does, d.possible(&o))
	}
	c, done, err := o.able(ctx, p)
	if err != nil {
		return &Failure{ExitFailed, fmt.Errorf("target %s: %w", p.Target, err)}
	}
	o.print("faults of the target %s:\n", p.Target)
	for _, k := range fault.Kinds() {
		does := k.Does
		if k.Named && p.guarded() {
			does += " (only if it is named)"
		}
		o.printKind(k.Name, does, k.Needs(c))
	}
	o.print("workloads:\n")
	for _, k := range workload.Kinds() {
		o.printKind(k.Name, fmt.Sprintf("%s (%s)", k.Does, strings.Join(k.Protocols, ", ")), nil)
	}
	if err := done(ctx); err != nil {
		return &Failure{ExitFailed, err}
	}
	return nil
}

// able returns a cluster that knows what the target can: one that is made for that and not started, or
// the driver of one that is already there. done takes it back.
func (o *Options) able(ctx context.Context, p plan) (c target.Cluster, done func(context.Context) error, err error) {
	if a := p.driver().abilities; a != nil {
		return a, func(context.Context) error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "quorate-chaos-")
	if err != nil {
		return nil, nil, err
	}
	made, err := o.open(ctx, p, dir)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return made.Cluster, func(ctx context.Context) error { return errors.Join(made.Close(ctx), os.RemoveAll(dir)) }, nil
}

// printKind prints one line; a lack is printed instead of what the kind does.
func (o *Options) printKind(name, does string, lacks error) {
	if lacks != nil {
		does = "NOT HERE: " + lacks.Error()
	}
	o.print("  %-13s %s\n", name, strings.ReplaceAll(does, "\n", "; "))
}

package command

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/quorate/quorate/chaos/fault"
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
	o.tell("targets:\n")
	for _, d := range targets() {
		o.tellKind(d.name, d.does, d.possible(&o))
	}
	dir, err := os.MkdirTemp("", "quorate-chaos-")
	if err != nil {
		return &Failure{ExitFailed, err}
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left is in the directory for such
	c, err := o.open(ctx, p, dir)
	if err != nil {
		return &Failure{ExitFailed, fmt.Errorf("target %s: %w", p.Target, err)}
	}
	o.tell("faults of the target %s:\n", p.Target)
	for _, k := range fault.Kinds() {
		o.tellKind(k.Name, k.Does, k.Needs(c.Cluster))
	}
	o.tell("workloads:\n")
	for _, k := range workload.Kinds() {
		o.tellKind(k.Name, fmt.Sprintf("%s (%s)", k.Does, strings.Join(k.Protocols, ", ")), nil)
	}
	if err := c.Close(ctx); err != nil {
		return &Failure{ExitFailed, err}
	}
	return nil
}

// tellKind prints one line; a lack is told instead of what the kind does.
func (o *Options) tellKind(name, does string, lacks error) {
	if lacks != nil {
		does = "NOT HERE: " + lacks.Error()
	}
	o.tell("  %-13s %s\n", name, strings.ReplaceAll(does, "\n", "; "))
}

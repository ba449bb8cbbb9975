package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/run"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/workload"
)

// Defaults of a plan.
const (
	defaultLength = time.Minute
	defaultNodes  = 3
)

// plan is what a run does, as it is kept beside the history so that it can be done again.
type plan struct {
	Target    string        `json:"target"`
	Nodes     int           `json:"nodes"`
	Seed      uint64        `json:"seed"`
	Length    time.Duration `json:"length"`
	Rate      int           `json:"rate"`                // 0: what each kind of workload says
	Faults    []string      `json:"faults,omitempty"`    // that were named; empty: all that the cluster could have
	Workloads []string      `json:"workloads,omitempty"` // that were named; empty: all
	MaxPause  float64       `json:"max_pause"`           // negative: pauses are not judged
	Each      bool          `json:"each,omitempty"`      // every kind comes once, and ends the run
	Steps     []fault.Step  `json:"steps"`
}

// plan returns what the options ask for, or what the run did that is to be done again.
func (o *Options) plan() (plan, error) {
	p := plan{
		Target: o.Target, Nodes: o.Nodes, Seed: o.Seed, Length: o.Length, Rate: o.Rate,
		Faults: o.Faults, Workloads: o.Workloads, MaxPause: o.MaxPause, Each: o.Each,
	}
	if o.Replay != "" {
		name := filepath.Join(o.Replay, planFile)
		text, err := os.ReadFile(name)
		if err != nil {
			return p, fmt.Errorf("--replay takes the directory that a run left: %w", err)
		}
		p = plan{}
		if err := json.Unmarshal(text, &p); err != nil {
			return p, fmt.Errorf("%s is not what a run left: %w", name, err)
		}
		p.Target = cmp.Or(o.Target, p.Target)
	}
	p.Target = cmp.Or(p.Target, processes)
	p.Length = cmp.Or(p.Length, defaultLength)
	p.Nodes = cmp.Or(p.Nodes, defaultNodes)
	p.MaxPause = cmp.Or(o.MaxPause, p.MaxPause, check.BusyFactor)
	return p, p.validate()
}

// validate finds wrong names before anything is started.
func (p *plan) validate() error {
	var errs []error
	if !slices.ContainsFunc(targets(), func(t driver) bool { return t.name == p.Target }) {
		errs = append(errs, fmt.Errorf("there is no target %q: quoratectl chaos list prints them", p.Target))
	}
	kinds, loads := map[string]bool{}, map[string]bool{}
	for _, k := range fault.Kinds() {
		kinds[k.Name] = true
	}
	for _, k := range workload.Kinds() {
		loads[k.Name] = true
	}
	for _, name := range p.Faults {
		if !kinds[name] {
			errs = append(errs, fmt.Errorf("there is no fault %q: quoratectl chaos list prints them", name))
		}
	}
	for _, name := range p.Workloads {
		if !loads[name] {
			errs = append(errs, fmt.Errorf("there is no workload %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(loads)), ", ")))
		}
	}
	return errors.Join(errs...)
}

// config returns the run of the plan on a cluster.
func (p *plan) config(c target.Cluster) (run.Config, error) {
	cfg := run.Config{Cluster: c, Seed: p.Seed, Length: p.Length, Rate: p.Rate, Steps: p.Steps, MaxPause: max(0, p.MaxPause)}
	for _, k := range workload.Kinds() {
		if len(p.Workloads) == 0 || slices.Contains(p.Workloads, k.Name) {
			cfg.Workloads = append(cfg.Workloads, k)
		}
	}
	for _, k := range fault.Kinds() {
		named := slices.Contains(p.Faults, k.Name)
		if !named && len(p.Faults) > 0 {
			continue
		}
		if k.Named && !named && p.guarded() {
			continue
		}
		switch err := k.Needs(c); {
		case err == nil:
			cfg.Faults = append(cfg.Faults, k)
		case named:
			return cfg, fmt.Errorf("fault %s: %w", k.Name, err)
		}
	}
	switch {
	case cfg.Steps != nil:
	case p.Each:
		cfg.Steps = fault.Each(cfg.Faults, p.Seed)
	default:
		cfg.Steps = fault.Schedule(cfg.Faults, p.Seed, p.Length)
	}
	if last := len(cfg.Steps); p.Each {
		cfg.Enough = func(events []history.Event) bool { return healed(events) == last }
	}
	return cfg, nil
}

// command returns the command line that carries the plan out again.
func (p *plan) command() string {
	out := fmt.Sprintf("quoratectl chaos run --target %s --nodes %d --seed %d --time %v --max-pause %g", p.Target, p.Nodes, p.Seed, p.Length, p.MaxPause)
	if p.Each {
		out += " --each"
	}
	if p.Rate > 0 {
		out += fmt.Sprintf(" --rate %d", p.Rate)
	}
	if len(p.Faults) > 0 {
		out += " --faults " + strings.Join(p.Faults, ",")
	}
	if len(p.Workloads) > 0 {
		out += " --workloads " + strings.Join(p.Workloads, ",")
	}
	return out
}

// write keeps the plan in a file.
func (p *plan) write(name string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o640)
}

// healed counts the faults that were.
func healed(events []history.Event) (n int) {
	for _, e := range events {
		if e.Kind == history.Healed {
			n++
		}
	}
	return n
}

// unfelt returns a failure that names the kinds of faults in the steps that did not come, or of which
// none was felt, and the workloads that lacked what they need. Faults that hit by chance need not be felt.
func unfelt(steps []fault.Step, events []history.Event) error {
	felt := map[string]bool{} // by kind, or the prefix of a workload; false: nothing shows it
	for _, s := range steps {
		felt[s.Kind] = false
	}
	kinds := map[int]string{}
	for _, e := range events {
		if e.Kind == history.Fault {
			kind, _, _ := strings.Cut(e.Note, " of ")
			kinds[e.Fault] = kind
		}
		if e.Kind == history.Bit {
			what := kinds[e.Fault]
			if e.Fault == 0 {
				what = e.Queue
			}
			felt[what] = felt[what] || e.Again
		}
	}
	for _, k := range fault.Kinds() {
		if k.Chance {
			delete(felt, k.Name)
		}
	}
	var none []string
	for what, bit := range felt {
		if !bit {
			none = append(none, what)
		}
	}
	if len(none) == 0 {
		return nil
	}
	slices.Sort(none)
	return &Failure{ExitUnknown, fmt.Errorf("faults and workloads that never bit: %s", strings.Join(none, ", "))}
}

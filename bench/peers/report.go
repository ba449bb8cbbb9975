package peers

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// System is a measured system.
type System struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// Report is the outcome of a run. The first system is compared with the others.
type Report struct {
	Load    float64   `json:"load_average_before"`
	Seconds float64   `json:"seconds_of_each"`
	Systems []System  `json:"systems"`
	Skipped []string  `json:"skipped"`
	Figures []Figures `json:"figures"`
	Ratios  []Ratios  `json:"ratios"`
	Means   []Mean    `json:"means"`
}

// Ratios compare the first system with a peer under one workload; above 1 the first system is
// better.
type Ratios struct {
	Peer string `json:"peer"`
	Workload
	PerCPU      float64 `json:"messages_per_server_cpu_second"`
	Consumed    float64 `json:"consumed_per_second"`
	ConfirmP50  float64 `json:"confirm_p50"`
	ConfirmP99  float64 `json:"confirm_p99"`
	EndToEndP50 float64 `json:"end_to_end_p50"`
	EndToEndP99 float64 `json:"end_to_end_p99"`
}

// Mean summarizes a peer's ratios of messages per second of server processor time.
type Mean struct {
	Peer      string  `json:"peer"`
	Workloads int     `json:"workloads"`
	Geometric float64 `json:"geometric_mean"`
	Least     float64 `json:"least"`
	Most      float64 `json:"most"`
}

// Compare computes ratios and means.
func (r *Report) Compare() {
	r.Ratios, r.Means = nil, nil
	if len(r.Systems) == 0 {
		return
	}
	own := map[Workload]Figures{}
	for _, f := range r.Figures {
		if f.System == r.Systems[0].Name && f.Error == "" {
			own[f.Workload] = f
		}
	}
	for _, s := range r.Systems[1:] {
		m := Mean{Peer: s.Name, Least: math.Inf(1)}
		sum := 0.0
		for _, f := range r.Figures {
			o, there := own[f.Workload]
			if f.System != s.Name || f.Error != "" || !there {
				continue
			}
			x := Ratios{
				Peer: s.Name, Workload: f.Workload,
				PerCPU: o.MessagesPerCPUs / f.MessagesPerCPUs, Consumed: o.Consumed / f.Consumed,
				ConfirmP50: f.ConfirmP50 / o.ConfirmP50, ConfirmP99: f.ConfirmP99 / o.ConfirmP99,
				EndToEndP50: f.EndToEndP50 / o.EndToEndP50, EndToEndP99: f.EndToEndP99 / o.EndToEndP99,
			}
			r.Ratios = append(r.Ratios, x)
			m.Workloads++
			sum += math.Log(x.PerCPU)
			m.Least, m.Most = min(m.Least, x.PerCPU), max(m.Most, x.PerCPU)
		}
		if m.Workloads > 0 {
			m.Geometric = math.Exp(sum / float64(m.Workloads))
			r.Means = append(r.Means, m)
		}
	}
}

// Print writes the tables: each system's figures, then the comparison with the first one.
func (r *Report) Print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush returns the first error
	for _, s := range r.Systems {
		p("%s: %s\n", s.Name, s.About)
	}
	for _, s := range r.Skipped {
		p("%s\n", s)
	}
	p("load average before: %.1f; each workload publishes for %g s\n\n", r.Load, r.Seconds)
	p("body\tqueues\twindow\tsystem\tconsumed/s\tconfirm p50/p99 ms\tend to end p50/p99 ms\tserver CPU s/million\tclient's\thand-overs a message\treads, writes\n")
	for _, f := range r.Figures {
		if f.Error != "" {
			p("%d B\t%d\t%d\t%s\tfailed: %s\n", f.Size, f.Queues, f.Window, f.System, f.Error)
			continue
		}
		p("%d B\t%d\t%d\t%s\t%.0f\t%.1f/%.1f\t%.1f/%.1f\t%.1f\t%.1f\t%.2f\t%.2f\n", f.Size, f.Queues, f.Window, f.System, f.Consumed,
			f.ConfirmP50, f.ConfirmP99, f.EndToEndP50, f.EndToEndP99, f.CPU, f.ClientCPU, f.Waits, f.Calls)
	}
	p("\nbody\tqueues\twindow\tcompared with\tmessages per CPU second\tconsumed/s\tconfirm p50\tp99\tend to end p50\tp99\n")
	for _, x := range r.Ratios {
		p("%d B\t%d\t%d\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", x.Size, x.Queues, x.Window, x.Peer,
			x.PerCPU, x.Consumed, x.ConfirmP50, x.ConfirmP99, x.EndToEndP50, x.EndToEndP99)
	}
	p("\nmessages per server CPU second, compared with\tworkloads\tgeometric mean\tleast\tmost\n")
	for _, m := range r.Means {
		p("%s\t%d\t%.1f\t%.1f\t%.1f\n", m.Peer, m.Workloads, m.Geometric, m.Least, m.Most)
	}
	return w.Flush()
}

// Write stores the report as dir/peers.json.
func (r *Report) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "peers.json"), append(text, '\n'), 0o640)
}

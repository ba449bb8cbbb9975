package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/check"
)

//go:embed report.html
var page embed.FS

// maxFaultRows bounds the table of single faults in HTML; the JSON has them all.
const maxFaultRows = 400

// HTML writes the report as one page that loads nothing.
func (r *Report) HTML(w io.Writer) error {
	t, err := template.New("report.html").Funcs(template.FuncMap{
		"seconds": seconds, "kind": kindOf, "join": strings.Join, "beyond": beyond,
		"amount": amount, "bytes": megabytes, "clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"of":      func(k Kind, class string) *Worst { return worst(k.Clients, class) },
		"percent": func(f float64) string { return fmt.Sprintf("%g", f) },
	}).ParseFS(page, "report.html")
	if err == nil {
		err = t.Execute(w, view{Report: r, Classes: check.Classes(r.Recoveries), Listed: r.Recoveries[:min(len(r.Recoveries), maxFaultRows)]})
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// view is what the page shows.
type view struct {
	*Report
	Classes []string
	Listed  []check.Recovery
}

// Word is the verdict for people.
func (v view) Word() string {
	switch {
	case v.Verdict == check.Invalid:
		return "invalid: a guarantee was broken"
	case v.Failed != "":
		return "the run itself failed"
	case v.Verdict == check.Valid:
		return "valid"
	default:
		return "unknown: " + v.Why
	}
}

// State is the class of the verdict's colours.
func (v view) State() string {
	switch {
	case v.Verdict == check.Invalid:
		return "bad"
	case v.Verdict == check.Valid && v.Failed == "":
		return "good"
	default:
		return "unsure"
	}
}

// Mark is the verdict on a guarantee.
func (v view) Mark(g check.Guarantee) string {
	switch {
	case len(g.Broken) > 0:
		return "bad"
	case g.Missing != "":
		return "unsure"
	case g.Checked == 0:
		return "idle"
	default:
		return "good"
	}
}

// More is how many findings of a guarantee are not listed.
func (v view) More(g check.Guarantee) int { return v.Breaches[g.Name] - len(g.Broken) }

// Hidden is how many faults the table leaves out.
func (v view) Hidden() int { return len(v.Recoveries) - len(v.Listed) }

func worst(all []Worst, class string) *Worst {
	if i := slices.IndexFunc(all, func(w Worst) bool { return w.Class == class }); i >= 0 {
		return &all[i]
	}
	return nil
}

// amount writes a number with its thousands apart.
func amount(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u2009" + s[i:]
	}
	return s
}

// megabytes writes what is counted in bytes by its name in MB.
func megabytes(name string, v float64) string {
	if strings.HasSuffix(name, "_bytes") {
		return fmt.Sprintf("%.1f MB", v/1e6)
	}
	return fmt.Sprintf("%.0f", v)
}

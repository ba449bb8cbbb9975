package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/check"
)

// The timeline's measures, in units of its view box.
const (
	width   = 1160.0
	left    = 150.0
	right   = width - 10
	chart   = 120.0 // height of a chart
	row     = 16.0
	gap     = 34.0
	maxRows = 40 // of queues
)

// drawing is an SVG under way.
type drawing struct {
	strings.Builder
	took time.Duration
	y    float64 // where the next panel begins
}

// f appends to the drawing, which cannot fail.
func (d *drawing) f(format string, args ...any) { _, _ = fmt.Fprintf(d, format, args...) }

// x returns where a time is.
func (d *drawing) x(at time.Duration) float64 {
	return left + (right-left)*math.Min(1, float64(at)/float64(max(1, d.took)))
}

// Timeline draws throughput, latencies, leaders and faults over time.
func (r *Report) Timeline() template.HTML {
	d := &drawing{took: r.Took, y: 18}
	top := d.y
	peak := max(1, slices.Max(append(slices.Clone(r.Series.Confirms), r.Series.Deliveries...)))
	d.panel(chart, "messages a second", func(h float64) {
		scale := nice(peak)
		for _, part := range []float64{0, 0.5, 1} {
			d.level(h*(1-part), short(scale*part))
		}
		d.area("confirms", r.Series, r.Series.Confirms, h, func(v float64) float64 { return v / scale })
		d.line("deliveries", r.Series, r.Series.Deliveries, h, func(v float64) float64 { return v / scale })
	}, "confirms", "deliveries")
	d.panel(chart, "publish to confirm", func(h float64) {
		const least, most = 0, 5 // powers of ten of milliseconds
		for power := least; power < most; power++ {
			d.level(h*(1-float64(power-least)/(most-least)), time.Duration(math.Pow10(power)*float64(time.Millisecond)).String())
		}
		log := func(v float64) float64 {
			return math.Max(0, math.Min(1, (math.Log10(math.Max(v, 0.001))-least)/(most-least)))
		}
		d.line("p99", r.Series, r.Series.P99, h, log)
		d.line("p50", r.Series, r.Series.P50, h, log)
	}, "p50", "p99")
	bottom := d.y - gap
	d.leaders(r.Leaders, r.Settings.Nodes)
	d.faults(r.Recoveries)
	behind := &drawing{took: d.took, y: d.y}
	behind.axis()
	d.y = behind.y
	head := fmt.Sprintf(`<svg class="timeline" viewBox="0 0 %.0f %.0f" role="img" aria-label="the run over time">`, width, d.y)
	return template.HTML(head + behind.String() + r.shades(d, top, bottom) + d.String() + "</svg>")
}

// panel draws a titled part of this height, with a legend.
func (d *drawing) panel(h float64, title string, draw func(h float64), legend ...string) {
	d.f(`<g transform="translate(0 %.1f)"><text class="title" x="%.0f" y="-6">%s</text>`, d.y, left, html.EscapeString(title))
	for i, name := range legend {
		x := right - 90*float64(len(legend)-i)
		d.f(`<path class="key %s" d="M%.0f -10h14"/><text class="label" x="%.0f" y="-6">%s</text>`, name, x, x+18, name)
	}
	draw(h)
	d.f("</g>")
	d.y += h + gap
}

// level draws a line of the scale.
func (d *drawing) level(y float64, text string) {
	d.f(`<path class="grid" d="M%.0f %.1fH%.0f"/><text class="label end" x="%.0f" y="%.1f">%s</text>`, left, y, right, left-8, y+4, text)
}

// points calls f for each step that has a value.
func (d *drawing) points(s Series, values []float64, h float64, scale func(float64) float64, f func(i int, x, y float64)) {
	for i, v := range values {
		if v > 0 {
			f(i, d.x(min(d.took, time.Duration(i)*s.Step+s.Step/2)), h*(1-scale(v)))
		}
	}
}

// line draws what has values; steps without one part it.
func (d *drawing) line(class string, s Series, values []float64, h float64, scale func(float64) float64) {
	last := -2
	d.f(`<path class="line %s" d="`, class)
	d.points(s, values, h, scale, func(i int, x, y float64) {
		op := "L"
		if i != last+1 {
			op = "M"
		}
		d.f("%s%.1f %.1f", op, x, y)
		if i != last+1 {
			d.f("h0.1") // so that a single step is seen
		}
		last = i
	})
	d.f(`"/>`)
}

// area draws values with what is below them; a step without one is 0.
func (d *drawing) area(class string, s Series, values []float64, h float64, scale func(float64) float64) {
	var path strings.Builder
	for i, v := range values {
		op := "L"
		if i == 0 {
			op = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", op, d.x(min(d.took, time.Duration(i)*s.Step+s.Step/2)), h*(1-scale(v)))
	}
	first, last := d.x(s.Step/2), d.x(min(d.took, time.Duration(len(values)-1)*s.Step+s.Step/2))
	d.f(`<path class="area %s" d="%sL%.1f %.1fL%.1f %.1fZ"/><path class="line %s" d="%s"/>`, class, path.String(), last, h, first, h, class, path.String())
}

// leaders draws a row for each queue, with a colour for each node.
func (d *drawing) leaders(of []Band, nodes []string) {
	var queues []string
	for _, b := range of {
		if !slices.Contains(queues, b.Queue) {
			queues = append(queues, b.Queue)
		}
	}
	queues = queues[:min(len(queues), maxRows)]
	if len(queues) == 0 {
		return
	}
	d.panel(row*float64(len(queues)), "leaders of queues", func(float64) {
		for i, n := range nodes {
			x := right - 90*float64(len(nodes)-i)
			d.f(`<rect class="node n%d" x="%.0f" y="-15" width="14" height="9"/><text class="label" x="%.0f" y="-6">%s</text>`, i%7, x, x+18, html.EscapeString(n))
		}
		for i, q := range queues {
			d.f(`<text class="label end" x="%.0f" y="%.1f">%s</text>`, left-8, row*float64(i)+11, html.EscapeString(last(q, 24)))
		}
		for _, b := range of {
			i, n := slices.Index(queues, b.Queue), slices.Index(nodes, b.Node)
			if i < 0 {
				continue
			}
			class, who := "none", "nobody, as far as known"
			if n >= 0 {
				class, who = fmt.Sprintf("n%d", n%7), b.Node
			}
			d.f(`<rect class="node %s" x="%.1f" y="%.1f" width="%.1f" height="%.0f"><title>%s: %s from %s to %s</title></rect>`, class, d.x(b.From), row*float64(i)+1,
				math.Max(0.5, d.x(b.To)-d.x(b.From)), row-3, html.EscapeString(b.Queue), html.EscapeString(who), seconds(b.From), seconds(b.To))
		}
	})
}

// faults draws a row for each kind, with a bar for each fault.
func (d *drawing) faults(of []check.Recovery) {
	var names []string
	for i := range of {
		if n := kindOf(&of[i].Fault); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	d.panel(row*float64(len(names)), "faults", func(float64) {
		for i, n := range names {
			d.f(`<text class="label end" x="%.0f" y="%.1f">%s</text><path class="grid" d="M%.0f %.1fH%.0f"/>`,
				left-8, row*float64(i)+11, html.EscapeString(last(n, 24)), left, row*float64(i)+row/2-1, right)
		}
		for i := range of {
			r := &of[i]
			y := row * float64(slices.Index(names, kindOf(&r.Fault)))
			class := "fault"
			if beyond(r) {
				class = "fault beyond"
			}
			d.f(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.0f"><title>%s</title></rect>`, class, d.x(r.Fault.At), y+1,
				math.Max(2, d.x(d.end(r))-d.x(r.Fault.At)), row-4, html.EscapeString(summary(r)))
		}
	})
}

// end returns when a fault was healed.
func (d *drawing) end(r *check.Recovery) time.Duration {
	if r.Healed < 0 {
		return d.took
	}
	return r.Healed
}

// beyond reports whether clients paused for too long.
func beyond(r *check.Recovery) bool {
	var k Kind
	for _, c := range r.Clients {
		k.add(c)
	}
	return slices.ContainsFunc(k.Clients, func(w Worst) bool { return w.Beyond })
}

// summary describes what a fault did, in one line.
func summary(r *check.Recovery) string {
	s := fmt.Sprintf("%s %s at %s: longest pause %s", r.Fault.Note, strings.Join(r.Fault.Nodes, ", "), seconds(r.Fault.At), seconds(r.Pause))
	if r.Healed >= 0 {
		s += ", healed after " + seconds(r.Healed-r.Fault.At)
	}
	if r.Bit != "" {
		s += "; " + r.Bit
	}
	return s
}

// shades draws faults and findings behind the charts.
func (r *Report) shades(d *drawing, top, bottom float64) string {
	var s strings.Builder
	for i := range r.Recoveries {
		x := d.x(r.Recoveries[i].Fault.At)
		fmt.Fprintf(&s, `<rect class="shade" x="%.1f" y="%.0f" width="%.1f" height="%.0f"/>`, x, top, math.Max(1, d.x(d.end(&r.Recoveries[i]))-x), bottom-top)
	}
	for _, g := range r.Guarantees {
		for _, f := range g.Broken {
			fmt.Fprintf(&s, `<path class="breach" d="M%.1f %.0fV%.0f"><title>%s</title></path>`, d.x(f.At), top-6, bottom, html.EscapeString(g.Name+": "+f.Why))
		}
	}
	return s.String()
}

// axis draws the times.
func (d *drawing) axis() {
	d.y -= gap - 16
	step := time.Second
	for _, s := range []time.Duration{5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600} {
		if step = s * time.Second; d.took/step <= 12 {
			break
		}
	}
	for at := time.Duration(0); at <= d.took; at += step {
		d.f(`<path class="grid" d="M%.1f 18V%.1f"/><text class="label middle" x="%.1f" y="%.1f">%s</text>`, d.x(at), d.y-10, d.x(at), d.y+4, at)
	}
	d.y += 14
}

// nice rounds a peak up to a number that reads well.
func nice(v float64) float64 {
	power := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, f := range []float64{1, 2, 4, 5, 10} {
		if v <= f*power {
			return f * power
		}
	}
	return v
}

// short is a number as a scale has it.
func short(v float64) string {
	if v >= 10_000 {
		return fmt.Sprintf("%.0fk", v/1000)
	}
	return fmt.Sprintf("%g", v)
}

// last returns the end of a name that is too long.
func last(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return "…" + string(r[len(r)-n+1:])
	}
	return s
}

// seconds is a time as people read it; negative: no time.
func seconds(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", milliseconds(d))
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", milliseconds(d))
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/client"
)

// staleAfter is how old a sample may be before the screen shows that it waits for another one.
const staleAfter = 3 * time.Second

// topSorts are what s goes through.
func topSorts() []string { return []string{"rate", "ready", "unacked", "dead_letters"} }

// Marks of lines: reverse for headers, bold for what needs attention.
const (
	reverse = "\x1b[7m"
	bold    = "\x1b[1m"
	normal  = "\x1b[m"
)

// topScreen is what `top` shows. It knows nothing of the terminal.
type topScreen struct {
	request client.WatchClusterRequest
	sample  *client.ClusterSample // nil: none has come
	came    time.Time
	skip    int // queues above the screen
	page    int // queues on the screen, when it was last drawn
	typing  bool
	typed   string // the filter so far, while typing
}

// newTopScreen returns an empty screen.
func newTopScreen(r client.WatchClusterRequest) *topScreen { return &topScreen{request: r} }

// show shows another sample.
func (s *topScreen) show(x client.ClusterSample, now time.Time) {
	s.sample, s.came = &x, now
	s.scroll(0)
}

// press does what a key says, and reports whether that is to end.
func (s *topScreen) press(k key) (ends bool) {
	if s.typing {
		s.edit(k)
		return k == keyInterrupt
	}
	switch k {
	case "q", "Q", keyInterrupt:
		return true
	case "s", "S":
		all := topSorts()
		s.request.Sort, s.skip = all[(slices.Index(all, s.request.Sort)+1)%len(all)], 0
	case "/":
		s.typing, s.typed = true, s.request.Filter
	case keyEscape:
		s.request.Filter, s.skip = "", 0
	case keyUp, "k":
		s.scroll(-1)
	case keyDown, "j":
		s.scroll(1)
	case keyPageUp:
		s.scroll(-s.page)
	case keyPageDown, " ":
		s.scroll(s.page)
	case keyHome:
		s.scroll(-s.skip)
	case keyEnd:
		s.scroll(topQueues)
	default:
	}
	return false
}

// edit changes the filter that is being typed.
func (s *topScreen) edit(k key) {
	switch {
	case k == keyEnter:
		s.typing, s.request.Filter, s.skip = false, s.typed, 0
	case k == keyEscape:
		s.typing = false
	case k == keyBackspace:
		_, last := utf8.DecodeLastRuneInString(s.typed)
		s.typed = s.typed[:len(s.typed)-last]
	case utf8.RuneCountInString(string(k)) == 1:
		s.typed += string(k)
	}
}

// scroll moves the list of queues, not beyond its ends.
func (s *topScreen) scroll(by int) {
	most := 0
	if s.sample != nil {
		most = max(0, len(s.sample.Queues)-s.page)
	}
	s.skip = min(max(0, s.skip+by), most)
}

// lines are the whole screen.
func (s *topScreen) lines(width, height int) []string {
	if s.sample == nil {
		return []string{clipTo("waiting for the first sample of the cluster", width), "", s.foot(width)}
	}
	out := topHead(s.sample)
	if age := time.Since(s.came); age > staleAfter {
		out = append(out, fmt.Sprintf("! no sample for %s: other nodes are being tried", age.Round(time.Second)))
	}
	out = append(out, "")
	header, rows := topNodes(s.sample)
	out = append(out, columns(header, rows)...)
	out = append(out, "")
	header, rows = topQueueRows(s.sample)
	table := columns(header, rows)
	s.page = max(1, height-len(out)-2) // besides the header and the last line
	s.scroll(0)
	out = append(out, table[0])
	out = append(out, table[1+s.skip:min(len(table), 1+s.skip+s.page)]...)
	for i, line := range out {
		out[i] = marked(clipTo(line, width))
	}
	for len(out) < height-1 {
		out = append(out, "")
	}
	return append(out[:max(0, height-1)], s.foot(width))
}

// foot is the last line: what is shown, and the keys.
func (s *topScreen) foot(width int) string {
	if s.typing {
		return reverse + clipTo("filter: "+cell(s.typed)+"_  (enter: use it, escape: leave it)", width) + normal
	}
	text := "sort: " + s.request.Sort
	if s.request.Filter != "" {
		text += "  filter: " + cell(s.request.Filter)
	}
	if x := s.sample; x != nil && len(x.Queues) > 0 {
		text += fmt.Sprintf("  %d-%d of %d", s.skip+1, min(s.skip+s.page, len(x.Queues)), x.Matching)
	}
	return reverse + clipTo(text+"   q quit  s sort  / filter  arrows scroll", width) + normal
}

// marked shows headers and warnings so that they are seen.
func marked(line string) string {
	switch {
	case strings.HasPrefix(line, "NODE") || strings.HasPrefix(line, "QUEUE"):
		return reverse + line + normal
	case strings.HasPrefix(line, "!"):
		return bold + line + normal
	}
	return line
}

// clipTo cuts a line to a width.
func clipTo(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:width])
	}
	return line
}

// topHead are the figures of the whole cluster, and its alarms.
func topHead(x *client.ClusterSample) []string {
	t, r := &x.Totals, &x.Rates
	out := []string{
		fmt.Sprintf("cluster %s  %s  %d nodes  %s queues  %s clients  %s consumers  (from %s)", cell(x.Cluster), x.At.Format(time.TimeOnly), len(x.Nodes),
			short(float64(t.Queues)), short(float64(t.Connections)), short(float64(t.Consumers)), cell(x.Node)),
		fmt.Sprintf("messages: %s ready  %s unacked  %s delayed  %s dead letters  %s", short(float64(t.Ready)), short(float64(t.Unacked)),
			short(float64(t.Delayed)), short(float64(t.DeadLetters)), bytesText(t.Bytes)),
		fmt.Sprintf("each second: %s published  %s confirmed  %s delivered  %s acked  %s redelivered  %s dead letters", short(r.Publish), short(r.Confirm),
			short(r.Deliver), short(r.Ack), short(r.Redeliver), short(r.DeadLetter)),
	}
	for _, n := range x.Silent {
		out = append(out, "! node "+cell(n)+" does not answer")
	}
	for _, a := range x.Alarms {
		out = append(out, "! "+cell(a))
	}
	return out
}

// topNodes is the table of nodes.
func topNodes(x *client.ClusterSample) (header []string, rows [][]string) {
	header = []string{"node", "state", "pub/s", "conf/s", "dlv/s", "ack/s", "cpu", "memory", "confirm", "fsync", "disk free", "leads", "clients"}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		state := "running"
		switch {
		case !n.Answers:
			state = "silent"
		case n.Draining:
			state = "draining"
		}
		rows = append(rows, []string{
			cell(n.ID), state, short(n.Rates.Publish), short(n.Rates.Confirm), short(n.Rates.Deliver), short(n.Rates.Ack),
			optional(n.CPU, func(c float64) string { return fmt.Sprintf("%.0f%%/%d", 100*c, n.Processors) }),
			optional(n.Memory, bytesText), optional(n.ConfirmP99, microseconds), optional(n.SyncP99, microseconds),
			optional(n.DiskFree, bytesText), short(float64(n.Leads)), short(float64(n.Connections)),
		})
	}
	return header, rows
}

// topQueueRows is the table of queues.
func topQueueRows(x *client.ClusterSample) (header []string, rows [][]string) {
	header = []string{"queue", "vhost", "leader", "ready", "unacked", "dead", "pub/s", "dlv/s", "ack/s", "consumers", "size"}
	for i := range x.Queues {
		q := &x.Queues[i]
		rows = append(rows, []string{
			cell(q.Name), cell(q.VHost), cell(q.Leader), short(float64(q.Ready)), short(float64(q.Unacked)), short(float64(q.DeadLetters)),
			short(q.Rates.Publish), short(q.Rates.Deliver), short(q.Rates.Ack), short(float64(q.Consumers)), bytesText(q.Bytes),
		})
	}
	return header, rows
}

// optional is "-" for what is not known.
func optional[T any](v *T, text func(T) string) string {
	if v == nil {
		return "-"
	}
	return text(*v)
}

// microseconds shows a time.
func microseconds(us uint64) string {
	return fmt.Sprintf("%.1fms", float64(us)/1000)
}

// short shows a number in few characters.
func short(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 1e4:
		return fmt.Sprintf("%.1fk", x/1e3)
	case x >= 10 || x == float64(int(x)):
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}

// bytesText shows bytes in few characters.
func bytesText(n uint64) string {
	x, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if x < 1024 {
			break
		}
		x, unit = x/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%.0f B", x)
	}
	return fmt.Sprintf("%.1f %s", x, unit)
}

// nameColumn is how wide the first column of a table on the screen is at most: a long name must not hide the figures.
const nameColumn = 40

// columns sets a table: names to the left, figures to the right. The first line is the header.
func columns(header []string, rows [][]string) []string {
	all := [][]string{make([]string, len(header))}
	for i, h := range header {
		all[0][i] = strings.ToUpper(h)
	}
	all = append(all, rows...)
	widths := make([]int, len(header))
	for _, r := range all {
		r[0] = clipTo(r[0], nameColumn)
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	out := make([]string, len(all))
	for k, r := range all {
		cells := make([]string, len(r))
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i == 0 || isName(header[i]) {
				cells[i] = c + pad
			} else {
				cells[i] = pad + c
			}
		}
		out[k] = strings.TrimRight(strings.Join(cells, "  "), " ")
	}
	return out
}

// isName reports whether a column has words and not figures.
func isName(column string) bool { return slices.Contains([]string{"state", "vhost", "leader"}, column) }

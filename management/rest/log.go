package rest

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/logtail"
)

// logRoutes show the log of this node.
func logRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/log", tag: administrator, always: true, serve: watchLog, query: logQuery(), says: "the newest lines of this node's log and then new ones, as server-sent events"},
	}
}

// logQuery are the parameters of the stream of the log.
func logQuery() []parameter {
	return []parameter{
		textParam("level", "lines of this level and above: "+logtail.LevelNames), textParam("contains", "lines with this text in the message or the attributes, in capitals or not"),
		countParam("limit", "how many of the newest lines to begin with; 100 if it is left out"),
	}
}

// defaultLogLines is how many lines the stream begins with if the query has no limit.
const defaultLogLines = 100

// logChoice is which lines the query chooses.
type logChoice struct {
	level slog.Level
	text  string // in lower case
	limit int    // of the lines that there are already
	after uint64 // number of the last line that the caller has; 0: none
}

// choiceOfLog reads which lines the query chooses. An id of another life of the node counts for nothing.
func (c *call) choiceOfLog() (logChoice, error) {
	x := logChoice{level: logtail.AnyLevel, text: strings.ToLower(c.text("contains")), limit: defaultLogLines}
	if name := c.text("level"); name != "" {
		var is bool
		if x.level, is = logtail.ParseLevel(name); !is {
			return x, bad("level", name, "want "+logtail.LevelNames)
		}
	}
	if len(x.text) > maxFilterBytes {
		return x, bad("contains", strconv.Itoa(len(x.text))+" bytes", "the limit is "+strconv.Itoa(maxFilterBytes)+" bytes")
	}
	if c.given("limit") {
		limit, err := c.count("limit", logtail.Lines)
		if err != nil {
			return x, err
		}
		x.limit = int(limit)
	}
	life, number, _ := strings.Cut(c.Header.Get("Last-Event-ID"), ".")
	if life == c.api.lifeOfLog() {
		x.after, _ = strconv.ParseUint(number, 10, 64) // 0 for what is no id of this stream
	}
	return x, nil
}

// lifeOfLog distinguishes the numbers of lines from those of earlier lives of the node.
func (a *api) lifeOfLog() string { return strconv.FormatInt(a.Log.Began().UnixMilli(), 10) }

// chosen returns the lines with the text.
func (x *logChoice) chosen(lines []logtail.Line) (out []logtail.Line) {
	for i := range lines {
		if l := &lines[i]; x.text == "" || strings.Contains(strings.ToLower(l.Message), x.text) || strings.Contains(strings.ToLower(l.Attributes), x.text) {
			out = append(out, *l)
		}
	}
	return out
}

// begin returns the lines to begin with, and the number to go on after: those that a caller missed who was cut off, or
// the newest.
func (x *logChoice) begin(t *logtail.Tail) (lines []logtail.Line, last uint64) {
	all, last := t.Newest(logtail.Lines, x.level)
	lines = x.chosen(all)
	if x.after == 0 {
		return lines[max(0, len(lines)-x.limit):], last
	}
	missed := 0
	for missed < len(lines) && lines[missed].Number <= x.after {
		missed++
	}
	return lines[missed:], last
}

// watchLog sends lines that there are, then new ones. Its first event only says whose they are.
func watchLog(c *call) (reply, error) {
	x, err := c.choiceOfLog()
	if err != nil {
		return reply{}, err
	}
	return c.stream(func(ctx context.Context, s *stream) error {
		if err := s.send("", eventBegin, object{"node": c.api.Node}); err != nil {
			return err
		}
		lines, last := x.begin(c.api.Log)
		for {
			for i := range lines {
				l := &lines[i]
				id := fmt.Sprintf("%s.%d", c.api.lifeOfLog(), l.Number)
				if err := s.send(id, "", object{
					"node": c.api.Node, "number": l.Number, "at_ms": l.At.UnixMilli(), "level": logtail.NameOf(l.Level), "message": l.Message, "attributes": l.Attributes,
				}); err != nil {
					return err
				}
			}
			all, newest, err := c.api.Log.After(ctx, last, x.level)
			if err != nil {
				return err
			}
			lines, last = x.chosen(all), newest
		}
	})
}

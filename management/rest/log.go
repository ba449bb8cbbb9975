package rest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/internal/logtail"
)

// logRoutes show the logs of nodes.
func logRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/log", tag: administrator, always: true, serve: watchLog, query: logQuery(), says: "the newest lines of a node's log and then new ones, as server-sent events"},
	}
}

// logQuery are the parameters of the stream of the log.
func logQuery() []parameter {
	return []parameter{
		textParam("node", "the node whose log it is; the one that is asked if it is left out"), textParam("level", "lines of this level and above: "+logtail.LevelNames), textParam("contains", "lines with this text in the message or the attributes, in capitals or not"),
		countParam("limit", "how many of the newest lines to begin with; 100 if it is left out"),
	}
}

// defaultLogLines is how many lines the stream begins with if the query has no limit.
const defaultLogLines = 100

// logChoice is which lines the query chooses.
type logChoice struct {
	node  string
	level slog.Level
	text  string // in lower case
	limit int    // of the lines that there are already
	at    operators.LogPosition
}

// choiceOfLog reads which lines the query chooses.
func (c *call) choiceOfLog() (logChoice, error) {
	x := logChoice{node: cmp.Or(c.text("node"), c.api.Node), level: logtail.AnyLevel, text: strings.ToLower(c.text("contains")), limit: defaultLogLines}
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
	if last := c.Header.Get("Last-Event-ID"); last != "" {
		if n, err := fmt.Sscanf(last, logID, &x.at.Epoch, &x.at.Seq); n != 2 || err != nil {
			return x, bad("Last-Event-ID", last, "is not one that this stream gave; send none for the newest lines")
		}
	}
	return x, nil
}

// logID is the id of a line: the life of its node, and its number.
const logID = "%d.%d"

// chosen returns the lines with the text.
func (x *logChoice) chosen(lines []logtail.Line) (out []logtail.Line) {
	for i := range lines {
		if l := &lines[i]; x.text == "" || strings.Contains(strings.ToLower(l.Message), x.text) || strings.Contains(strings.ToLower(l.Attributes), x.text) {
			out = append(out, *l)
		}
	}
	return out
}

// beginLog returns the lines to begin with, and moves on behind them: those that a caller missed who was cut off, or the
// newest.
func (c *call) beginLog(ctx context.Context, x *logChoice) (lines []logtail.Line, err error) {
	before := x.at
	for more := true; more; {
		p, err := c.api.Broker.Operators.ReadLog(ctx, x.node, x.at, x.level, false)
		if err != nil {
			return nil, err
		}
		lines, x.at, more = append(lines, x.chosen(p.Lines)...), p.At, p.More
	}
	if before.Epoch == x.at.Epoch { // of the same life
		return lines, nil
	}
	return lines[max(0, len(lines)-x.limit):], nil
}

// watchLog sends lines that there are, then new ones. Its first event only says whose they are. A node that stops answering
// ends the stream; its client comes again.
func watchLog(c *call) (reply, error) {
	x, err := c.choiceOfLog()
	if err != nil {
		return reply{}, err
	}
	return c.stream(func(ctx context.Context, s *stream) error {
		lines, err := c.beginLog(ctx, &x)
		if err != nil {
			return err
		}
		if err := s.send("", eventBegin, object{"node": x.node}); err != nil {
			return err
		}
		for {
			for i := range lines {
				l := &lines[i]
				if err := s.send(fmt.Sprintf(logID, x.at.Epoch, l.Number), "", object{
					"node": x.node, "number": l.Number, "at_ms": l.At.UnixMilli(), "level": logtail.NameOf(l.Level), "message": l.Message, "attributes": l.Attributes,
				}); err != nil {
					return err
				}
			}
			p, err := c.api.Broker.Operators.ReadLog(ctx, x.node, x.at, x.level, true)
			if err != nil {
				return err
			}
			lines, x.at = x.chosen(p.Lines), p.At
		}
	})
}

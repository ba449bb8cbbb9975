package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/report"
	"github.com/quorate/quorate/chaos/target"
)

// logging is a cluster whose nodes have each logged a line; one no longer has a log.
type logging struct {
	target.Cluster
	nodes []string
	at    time.Time
	gone  string
}

func (l logging) Nodes() (out []target.Node) {
	for _, n := range l.nodes {
		out = append(out, target.Node{ID: n})
	}
	return out
}

func (l logging) Log(_ context.Context, node string, at time.Time) ([]byte, error) {
	if node == l.gone {
		return nil, errors.New("it is gone")
	}
	if !at.Equal(l.at) {
		return nil, fmt.Errorf("asked for what was logged since %v, not %v", at, l.at)
	}
	return fmt.Appendf(nil, "time=%s level=INFO msg=\"from %s\"\n", l.at.Add(time.Second).Format(time.RFC3339Nano), node), nil
}

// A report has the logs of all nodes that there were, also of one that a fault added and that left before the end, and
// says which one it lacks.
func TestLeaveLogs(t *testing.T) {
	const queue = "q"
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	message := history.Event{At: time.Second, Publisher: 1, ID: 1, Queues: []string{queue}}
	published, confirmed := message, message
	published.Kind, confirmed.Kind, confirmed.Sent = history.Published, history.Confirmed, time.Second
	events := []history.Event{
		{Kind: history.Began, Settings: &history.Settings{At: at, Nodes: []string{"n1", "n2"}}},
		{Kind: history.Declared, Queue: queue, Spec: &history.Queue{DeliveryLimit: -1}},
		{Kind: history.Fault, Fault: 1, Nodes: []string{"n1"}, Note: "scale of leader"},
		{Kind: history.Bit, Fault: 1, Nodes: []string{"n1", "n4"}, Note: "node n4 was added", Again: true},
		{Kind: history.Healed, Fault: 1, Nodes: []string{"n1"}},
		published, confirmed, // and lost
		{At: 2 * time.Second, Kind: history.Drained, Queue: queue},
	}
	var said []string
	cfg := Config{
		Cluster: logging{nodes: []string{"n2", "n3"}, at: at, gone: "n3"}, Dir: t.TempDir(),
		Log: func(format string, a ...any) { said = append(said, fmt.Sprintf(format, a...)) },
	}
	if found, err := Leave(t.Context(), cfg, events, nil); err != nil || found.Verdict != check.Invalid {
		t.Fatalf("%s: %s, %v", found.Verdict, found.Why, err)
	}
	text, err := os.ReadFile(filepath.Join(cfg.Dir, JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	var left report.Report
	if err := json.Unmarshal(text, &left); err != nil {
		t.Fatal(err)
	}
	var from []string
	for _, x := range left.Logs {
		for _, line := range x.Lines {
			from = append(from, line.Node)
		}
	}
	slices.Sort(from)
	if got := slices.Compact(from); !slices.Equal(got, []string{"n1", "n2", "n4"}) {
		t.Errorf("lines are of %q", got)
	}
	if len(said) != 1 || !strings.Contains(said[0], "node n3 is not in the report") {
		t.Errorf("said %q", said)
	}
}

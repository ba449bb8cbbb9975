package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/run"
)

// nodeBinary returns the program of nodes, or skips the test.
func nodeBinary(t *testing.T) string {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join("..", "..", "bin", "quorate"))
	if err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil || testing.Short() {
		t.Skipf("starts processes of bin/quorate, which `make build` makes; without -short (%v)", err)
	}
	return binary
}

// code returns the exit code of a command.
func code(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	failure := (*Failure)(nil)
	if !errors.As(err, &failure) {
		t.Fatalf("not a failure: %v", err)
	}
	return failure.Code
}

// busyPause is Options.MaxPause of these tests: they run beside others, and how fast nodes are is not what they look at.
const busyPause = 20

// A run leaves its history and its plan; the history is judged again, and the plan carried out
// again.
func TestRunCheckReplay(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "run")
	o := Options{Binary: nodeBinary(t), Faults: []string{"kill"}, Workloads: []string{"publish"}, Length: 10 * time.Second, Seed: 3, Rate: 100, MaxPause: busyPause, Out: dir, Output: &out}
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	out.Reset()
	if err := Check(dir, &out); err != nil || !strings.Contains(out.String(), "valid") {
		t.Errorf("the check: %v, %s", err, &out)
	}
	if got := code(t, Run(t.Context(), o)); got != ExitUsage {
		t.Errorf("a second run in the same directory: exit code %d", got)
	}
	again := Options{Binary: o.Binary, Replay: dir, MaxPause: busyPause, Out: dir + "-again", Output: &out}
	if err := Run(t.Context(), again); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if a, b := faultsOf(t, dir), faultsOf(t, again.Out); len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("the faults were %v, and of the replay %v", a, b)
	}
}

// Nodes that are made let queues hibernate: --strict fails where the workload that needs it sees none.
func TestQueuesHibernate(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := Options{
		Binary: nodeBinary(t), Faults: []string{"transfer"}, Workloads: []string{"resting"}, Length: 12 * time.Second, Strict: true,
		MaxPause: busyPause, Out: t.TempDir(), Output: &out,
	}
	if err := Run(t.Context(), o); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

// faultsOf returns what the history in a directory has of faults.
func faultsOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	events, err := history.ReadFile(filepath.Join(dir, run.HistoryFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == history.Fault {
			out = append(out, e.Note)
		}
	}
	return out
}

// A soak goes from seed to seed until it is interrupted, and leaves nothing of runs that were valid.
func TestSoak(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	dir := t.TempDir()
	o := Options{
		Binary: nodeBinary(t), Faults: []string{"transfer"}, Workloads: []string{"publish"}, Length: 3 * time.Second, Rate: 50,
		Soak: true, MaxPause: busyPause, Out: dir, Output: &out,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	valid := func() int { return strings.Count(out.String(), "history is valid") }
	for valid() < 2 && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if n := valid(); n < 2 {
		t.Errorf("%d runs were valid\n%s", n, &out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What the history shows decides the exit code.
func TestCheck(t *testing.T) {
	declared := history.Event{Kind: history.Declared, Queue: "q", Spec: &history.Queue{DeliveryLimit: -1}}
	published := history.Event{Kind: history.Published, Publisher: 1, ID: 1, Queues: []string{"q"}}
	confirmed := history.Event{Kind: history.Confirmed, Publisher: 1, ID: 1}
	drained := history.Event{Kind: history.Drained, Queue: "q"}
	for name, test := range map[string]struct {
		events []history.Event
		want   int
	}{
		"nothing confirmed": {[]history.Event{declared, published, drained}, ExitUnknown},
		"not drained":       {[]history.Event{declared, published, confirmed}, ExitUnknown},
		"lost":              {[]history.Event{declared, published, confirmed, drained}, ExitInvalid},
	} {
		file := filepath.Join(t.TempDir(), run.HistoryFile)
		if err := history.WriteFile(file, test.events); err != nil {
			t.Fatal(err)
		}
		if got := code(t, Check(file, &bytes.Buffer{})); got != test.want {
			t.Errorf("%s: exit code %d, want %d", name, got, test.want)
		}
	}
	if got := code(t, Check(filepath.Join(t.TempDir(), "none"), &bytes.Buffer{})); got != ExitFailed {
		t.Errorf("no file: exit code %d", got)
	}
}

// Wrong names are found before anything is started, all at once.
func TestWrongNames(t *testing.T) {
	err := Run(t.Context(), Options{Target: "moon", Faults: []string{"flood"}, Workloads: []string{"none"}, Output: &bytes.Buffer{}})
	for _, want := range []string{`target "moon"`, `fault "flood"`, `workload "none"`} {
		if code(t, err) != ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	dir := t.TempDir()
	if got := code(t, Run(t.Context(), Options{Replay: dir, Output: &bytes.Buffer{}})); got != ExitUsage {
		t.Errorf("a replay of nothing: %d", got)
	}
	if err := os.WriteFile(filepath.Join(dir, planFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := code(t, Run(t.Context(), Options{Replay: dir, Output: &bytes.Buffer{}})); got != ExitUsage {
		t.Errorf("a replay of half a plan: %d", got)
	}
}

// A kind of fault counts as felt if one of its faults was; one that did not come, or was not healed, does not. Nor does a
// workload that lacked what it needs.
func TestUnfelt(t *testing.T) {
	put := func(n int, note string) history.Event {
		return history.Event{Kind: history.Fault, Fault: n, Note: note}
	}
	bit := func(n int, felt bool) history.Event { return history.Event{Kind: history.Bit, Fault: n, Again: felt} }
	var steps []fault.Step
	for _, kind := range []string{"cpu", "delay", "loss", "flip-log", "pause"} {
		steps = append(steps, fault.Step{Kind: kind})
	}
	err := unfelt(steps, []history.Event{
		put(1, "cpu of leader"), put(2, "delay of all"), bit(2, false),
		put(3, "loss of anyone"), bit(3, false), put(4, "loss of leader"), bit(4, true), put(5, "flip-log of leader"), bit(5, false),
		{Kind: history.Bit, Queue: "chaos.resting"},
		{Kind: history.Bit, Queue: "chaos.other", Again: true},
	})
	if code(t, err) != ExitUnknown || !strings.HasSuffix(err.Error(), ": chaos.resting, cpu, delay, pause") {
		t.Errorf("%v", err)
	}
}

// A plan survives its file.
func TestPlanFile(t *testing.T) {
	p, err := (&Options{Seed: 7, Faults: []string{"kill"}}).plan()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), planFile)
	if err := p.write(file); err != nil {
		t.Fatal(err)
	}
	got, err := (&Options{Replay: filepath.Dir(file)}).plan()
	a, _ := json.Marshal(p)
	b, _ := json.Marshal(got)
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("%s became %s, %v", a, b, err)
	}
}

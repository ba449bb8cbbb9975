package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func load(t *testing.T) []Scenario {
	t.Helper()
	all, err := Load("scenarios")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every rule that a scenario cites is explained.
func TestRulesAreDefined(t *testing.T) {
	defined := map[string]bool{}
	for _, page := range []string{"../docs/semantics.md", "../docs/compatibility.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\*\*([A-Z]+-\d+)\*\*`).FindAllStringSubmatch(string(text), -1) {
			defined[m[1]] = true
		}
	}
	for _, s := range load(t) {
		rules := s.Rules
		for _, step := range s.Steps {
			for _, d := range step.Otherwise {
				rules = append(rules, d.Rule)
			}
		}
		for _, r := range rules {
			if !defined[r] {
				t.Errorf("%s cites %s, which is defined nowhere", s.Name, r)
			}
		}
	}
}

// A scenario that answers otherwise has failed, and so has one that no longer differs.
func TestBothWays(t *testing.T) {
	step := Step{Want: []string{"ok"}, Otherwise: []Difference{
		{Who: "rabbitmq", Rule: "Q-1", Want: []string{"no"}},
		{Who: "rabbitmq/pika", Rule: "Q-2", Want: []string{"never"}},
		{Who: "amqplib", Rule: "Q-3", Want: []string{"lost"}},
	}}
	for _, row := range []struct{ broker, client, want, rule string }{
		{"quorate", "pika", "ok", ""},
		{"rabbitmq", "amqp091-go", "no", "Q-1"},
		{"rabbitmq", "pika", "never", "Q-2"},
		{"quorate", "amqplib", "lost", "Q-3"},
		{"rabbitmq", "amqplib", "lost", "Q-3"},
	} {
		want, d := step.want(row.broker, row.client)
		if want[0] != row.want || (d != nil) != (row.rule != "") || d != nil && d.Rule != row.rule {
			t.Errorf("%s at %s: %v, %v", row.client, row.broker, want, d)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"> get q=a":                         "is outside a scenario",
		"=== A [Q-1] t":                     "want === name",
		"=== a [] t":                        "want === name",
		"=== a [Q-1] t\nok":                 "is an answer without a command",
		"=== a [Q-1] t\n> get q={\"a\"\nok": "q of",
		"=== a [Q-1] t\n> get q=a\nok\n! rabbitmq": "want ! who",
	} {
		if _, err := ParseScenarios(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	all, err := ParseScenarios("# note\n=== a [Q-1, DL-2] title\n> publish key=a b={\"x\": [1, 2]} c=5 d\nok\nmore\n! rabbitmq Q-3: why\nno\n")
	if err != nil || len(all) != 1 || len(all[0].Steps) != 1 || len(all[0].Rules) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	s := all[0].Steps[0]
	if s.Do != "publish" || s.Args["key"] != "a" || s.Args["c"] != number(5) || s.Args["d"] != true || len(s.Want) != 2 || s.Otherwise[0].Want[0] != "no" {
		t.Errorf("%+v", s)
	}
	if got := rewritten("# note\n=== a [Q-1, DL-2] title\n> publish x\nold\n", all); got != "# note\n=== a [Q-1, DL-2] title\n> publish x\nok\nmore\n! rabbitmq Q-3: why\nno\n" {
		t.Errorf("%q", got)
	}
}

// The scenarios through amqp091-go, over three nodes; `make conformance` runs them through
// more clients, and on RabbitMQ.
func TestAMQP091(t *testing.T) {
	ctx := context.Background()
	q := start(t)
	k := Kinds()[0]
	line, err := k.Install(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := StartClient(ctx, k.Name, line)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range load(t) {
		t.Run(s.Name, func(t *testing.T) {
			if testing.Short() && s.sleeps() {
				t.Skip("only the passing of time shows it: make conformance")
			}
			if r := Play(s, c, q); r.Outcome == Failed {
				t.Error(r.Text)
			}
		})
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	t.Run("failover", func(t *testing.T) {
		if err := Failover(ctx, k, q, failoverMessages); err != nil {
			t.Error(err)
		}
	})
}

// amqplib's connections end cleanly, whatever is under way. Before any test that runs beside others, this one
// installs what they need of npm.
func TestClosing(t *testing.T) {
	switch err := Closing(context.Background(), start(t), 10); {
	case errors.Is(err, ErrAbsent):
		t.Skip(err)
	case err != nil:
		t.Error(err)
	}
}

// The examples for gRPC in Python and JavaScript go on when the node that they use is killed.
func TestResume(t *testing.T) {
	t.Parallel()
	q, messages := start(t), resumeMessages
	if testing.Short() {
		messages /= 5
	}
	for _, language := range []string{"python", "javascript"} {
		t.Run(language, func(t *testing.T) {
			switch err := Resume(context.Background(), language, q, messages); {
			case errors.Is(err, ErrAbsent):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// What go test reports is counted by tests that do not consist of others; what was not meant to
// run, and what did not end, has failed.
func TestGoTests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	for _, row := range []struct {
		events, failed, skipped string
		passed                  int
	}{
		{"run A|run A/x|output A/x     a.go:1: no luck\n|fail A/x|fail A|run B|pass B", "A/x:     a.go:1: no luck\n", "", 1},
		{"run A|run A/x|pass A/x|run A/y|output A/y     a.go:2: why\n|skip A/y|run B|skip B|pass A", "", "A/y, by the library itself: a.go:2: why", 1},
		{"run A|output A 1, 2\n|pass A|run B", "B: ", "", 1},
		{"pass", "0 tests passed, want at least 1", "", 0},
	} {
		var text strings.Builder
		for line := range strings.SplitSeq(row.events, "|") {
			words := append(strings.SplitN(line, " ", 3), "", "")
			event, err := json.Marshal(testEvent{Action: words[0], Test: words[1], Output: words[2]})
			if err != nil {
				t.Fatal(err)
			}
			text.Write(append(event, '\n'))
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		r := goTests(exec.CommandContext(t.Context(), "cat", file), 1)
		if failed, skipped := strings.Join(r.Failed, ""), strings.Join(r.Skipped, ""); r.Passed != row.passed ||
			!strings.HasPrefix(failed, row.failed) || (failed == "") != (row.failed == "") || !strings.Contains(skipped, row.skipped) {
			t.Errorf("%s: %+v", row.events, r)
		}
	}
}

// The short form of other libraries' own tests; `make conformance` runs all of them.
func TestLibraries(t *testing.T) {
	t.Parallel()
	for _, l := range Libraries() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			r, err := l.Tests(context.Background(), true)
			judged(t, r, err)
		})
	}
}

// judged fails the test with each of a library's tests that failed. Where the library is absent the test is skipped.
func judged(t *testing.T, r LibraryTests, err error) {
	t.Helper()
	if errors.Is(err, ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d passed; differ as known: %q; left out: %q", r.Passed, r.Expected, r.Skipped)
	for _, f := range r.Failed { // last, where a report that is cut shows them
		t.Error(f)
	}
}

// The specs of the library by which other people's tools use the HTTP API.
func TestRabbitHole(t *testing.T) {
	t.Parallel()
	r, err := RabbitHole(context.Background())
	judged(t, r, err)
}

// The scaler of KEDA, which asks for lengths and rates of queues.
func TestKEDA(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles some hundred packages of Kubernetes")
	}
	t.Parallel()
	r, err := KEDA(context.Background())
	judged(t, r, err)
}

// The plugin of Telegraf, which collects figures of all objects.
func TestTelegraf(t *testing.T) {
	t.Parallel()
	r, err := Telegraf(context.Background())
	judged(t, r, err)
}

// Terraform's provider, by its acceptance tests.
func TestTerraform(t *testing.T) {
	if testing.Short() {
		t.Skip("runs Terraform a hundred times: make conformance")
	}
	t.Parallel()
	r, err := Terraform(context.Background())
	judged(t, r, err)
}

// A field that is empty has to be a known difference, and a known difference has to be empty.
func TestJudgeFigures(t *testing.T) {
	t.Parallel()
	whole := gathered{Errors: []string{federation}}
	for kind, fields := range telegrafFields() {
		for _, f := range fields {
			whole.Metrics = append(whole.Metrics, telegrafMetric{kind, map[string]any{f: 1.0}}, telegrafMetric{kind, map[string]any{f: 0.0}})
		}
	}
	for kind, fields := range telegrafLacks() {
		for f := range fields {
			whole.Metrics = append(whole.Metrics, telegrafMetric{kind, map[string]any{f: ""}})
		}
	}
	if r := whole.judge(); len(r.Failed) != 0 || len(r.Expected) < 30 || r.Passed < 50 {
		t.Errorf("%+v", r)
	}
	for want, g := range map[string]gathered{
		"was not gathered":                     {Metrics: whole.Metrics[2:], Errors: whole.Errors},
		"rabbitmq_node new: is 0":              {Metrics: append(slices.Clip(whole.Metrics), telegrafMetric{"rabbitmq_node", map[string]any{"new": 0.0}}), Errors: whole.Errors},
		"rabbitmq_node gc_num passes":          {Metrics: append(slices.Clip(whole.Metrics), telegrafMetric{"rabbitmq_node", map[string]any{"gc_num": 1.0}}), Errors: whole.Errors},
		"rabbitmq_federation passes, although": {Metrics: whole.Metrics},
		"getting nodes failed":                 {Metrics: whole.Metrics, Errors: append(slices.Clip(whole.Errors), "getting nodes failed")},
	} {
		if r := g.judge(); len(r.Failed) != 1 || !strings.Contains(r.Failed[0], want) {
			t.Errorf("%s: %q", want, r.Failed)
		}
	}
}

// A spec that fails has to be a known difference, and a known difference has to fail.
func TestJudgeSpecs(t *testing.T) {
	t.Parallel()
	var specs strings.Builder
	for range leastSpecs {
		specs.WriteString(`<testcase name="good"/>`)
	}
	known := []difference{{test: "known", why: "why"}, {test: "by chance", why: "why", sometimes: true}}
	for _, row := range []struct {
		more                      string
		passed, expected, skipped int
		failed                    string
	}{
		{`<testcase name="[It] known to fail"><failure message="x"/></testcase>`, 0, 1, 0, ""},
		{`<testcase name="[It] new"><failure message="no luck"/></testcase>`, 0, 0, 0, "new: no luck"},
		{`<testcase name="[It] known to fail"><error message="panic"/></testcase>`, 0, 1, 0, ""},
		{`<testcase name="known to fail"/>`, 0, 0, 0, "known to fail passes"},
		{`<testcase name="by chance"/>`, 1, 0, 0, ""},
		{`<testcase name="by chance"><failure message="x"/></testcase>`, 0, 1, 0, ""},
		{`<testcase name="other"><skipped/></testcase>`, 0, 0, 1, ""},
	} {
		r, err := judgeSpecs([]byte("<testsuites><testsuite>"+specs.String()+row.more+"</testsuite></testsuites>"), known)
		if err != nil {
			t.Fatal(err)
		}
		if r.Passed != leastSpecs+row.passed || len(r.Expected) != row.expected || len(r.Skipped) != row.skipped ||
			!strings.HasPrefix(strings.Join(r.Failed, ""), row.failed) || (row.failed == "") != (len(r.Failed) == 0) {
			t.Errorf("%s: %+v", row.more, r)
		}
	}
	if r, err := judgeSpecs([]byte("<testsuites/>"), nil); err != nil || len(r.Failed) != 1 {
		t.Errorf("an empty report: %+v, %v", r, err)
	}
	if _, err := judgeSpecs([]byte("no report"), nil); err == nil {
		t.Error("what is no report is taken")
	}
}

// The examples in Go print what they promise; `make conformance` runs those in other
// languages, and on RabbitMQ.
func TestExamples(t *testing.T) {
	t.Parallel()
	q := start(t)
	line, env, err := Program(context.Background(), "go")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range Examples("go") {
		t.Run(x.Name, func(t *testing.T) {
			if err := RunExample(context.Background(), x, line(x.Name), env, q); err != nil {
				t.Error(err)
			}
		})
	}
}

func start(t *testing.T) *Quorate {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	q, err := StartQuorate(context.Background(), binary, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

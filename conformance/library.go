package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os/exec"
	"slices"
	"strings"
)

// LibraryTests is the outcome of a library's own tests. It does not count tests that consist of
// subtests.
type LibraryTests struct {
	Passed int
	// Failed has the output of each failed test, Expected those that fail as it is known, with the reasons, and Skipped the
	// reasons of those left out.
	Failed, Expected, Skipped []string
}

// difference is a test that fails here, by the beginning of its name, and why. Of several that fit, the last counts; without a
// reason it passes. Whether a test of which sometimes is set fails depends on the moment.
type difference struct {
	test, why string
	sometimes bool
}

// judge counts a test. One that is a known difference has to fail, unless it sometimes passes, and all others have to pass;
// failure, "" for none, is what it said.
func (r *LibraryTests) judge(name string, failed bool, failure string, known []difference) {
	var is difference
	for _, d := range known {
		if strings.HasPrefix(name, d.test) {
			is = d
		}
	}
	switch {
	case !failed && (is.why == "" || is.sometimes):
		r.Passed++
	case !failed:
		r.Failed = append(r.Failed, name+" passes, although a difference is known: "+is.why)
	case is.why != "":
		r.Expected = append(r.Expected, name+": "+is.why)
	default:
		r.Failed = append(r.Failed, name+": "+failure)
	}
}

// OwnTests runs amqp091-go's integration tests, as they are, against a node of its own. Three of
// them run only if the server's name is RabbitMQ, and otherwise leave their connection open. The
// reconnect tests ask a broker's HTTP API at port 15672 to drop their connections; if another
// program has that port, they are left out and counted as skipped.
func OwnTests(ctx context.Context) (r LibraryTests, err error) {
	binary, err := Binary()
	if err != nil {
		return r, err
	}
	leave, management := "TestRabbitMQQueue|TestIntegrationRecoverNotImplemented", managementPort
	var skipped []string
	if !freeManagement() {
		leave, management = leave+"|Recover", 0
		skipped = append(skipped, "reconnect tests: they need port 15672, which is in use")
	}
	q, err := StartQuorate(ctx, binary, 1, management)
	if err != nil {
		return r, err
	}
	host, port := q.Address()
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-tags", "integration", "-count=1", "-skip", leave, "github.com/rabbitmq/amqp091-go")
	cmd.Env = append(cmd.Environ(), "AMQP_URL=amqp://guest:guest@"+net.JoinHostPort(host, port)+"/")
	r = goTests(cmd, 200)
	r.Skipped = append(r.Skipped, skipped...)
	return r, q.Close()
}

// testEvent is a line of go test -json.
type testEvent struct {
	Action, Test, Output string
}

// maxFailureLines bounds the lines kept of a test's output.
const maxFailureLines = 40

// goTests runs a go test -json of which at least so many tests must pass, and those of known must fail. Fewer mean that it did
// not run the intended tests.
func goTests(cmd *exec.Cmd, least int, known ...difference) (r LibraryTests) {
	complaint := &tail{}
	cmd.Stderr = complaint
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.Failed = []string{err.Error()}
		return r
	}
	outcomes, outputs, broken := readTests(out)
	failure := cmd.Wait()
	skipped := map[string][]string{} // names by reason
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		output := strings.Join(outputs[name], "")
		switch outcome := outcomes[name]; {
		case outcome == "run", outcome == "fail" && !hasPart(outcomes, name, "fail"): // the former did not end
			r.judge(name, true, output, known)
		case hasPart(outcomes, name, ""):
		case outcome == "skip":
			why := strings.Join(strings.Fields(output), " ")
			skipped[why] = append(skipped[why], name)
		case outcome == "pass":
			r.judge(name, false, "", known)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		names := skipped[why]
		text := names[0]
		if len(names) > 1 {
			text += fmt.Sprintf(" and %d more", len(names)-1)
		}
		r.Skipped = append(r.Skipped, text+", by the library itself: "+why)
	}
	if (failure != nil && len(r.Expected) == 0 || broken != nil || r.Passed < least) && len(r.Failed) == 0 {
		r.Failed = []string{fmt.Sprintf("%d tests passed, want at least %d; %v, %v: %s%s",
			r.Passed, least, failure, broken, complaint, strings.Join(outputs[""], ""))}
	}
	return r
}

// hasPart reports whether a test has a subtest with this outcome; "" for any outcome.
func hasPart(outcomes map[string]string, name, outcome string) bool {
	for other, o := range outcomes {
		if strings.HasPrefix(other, name+"/") && (outcome == "" || o == outcome) {
			return true
		}
	}
	return false
}

// readTests returns the last action of each test and what it logged; other output of the program is
// left out. The output outside tests has the name "".
func readTests(out io.Reader) (outcomes map[string]string, outputs map[string][]string, err error) {
	outcomes, outputs = map[string]string{}, map[string][]string{}
	d := json.NewDecoder(out)
	for {
		var e testEvent
		if err := d.Decode(&e); err != nil {
			_, _ = io.Copy(io.Discard, out) // lets the program finish
			if err == io.EOF {
				err = nil
			}
			return outcomes, outputs, err
		}
		switch e.Action {
		case "run", "pass", "fail", "skip":
			if e.Test != "" {
				outcomes[e.Test] = e.Action
			}
		case "output":
			output := strings.HasPrefix(e.Output, "    ") && !strings.HasPrefix(strings.TrimSpace(e.Output), "---")
			if (output || e.Test == "") && len(outputs[e.Test]) < maxFailureLines {
				outputs[e.Test] = append(outputs[e.Test], e.Output)
			}
		}
	}
}

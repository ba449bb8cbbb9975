package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
)

// toolCall is one call of librabbitmq's amqp-tools.
type toolCall struct {
	line  string // the program and its arguments; Q stands for the queue
	input string
	want  string // expected output
	fails string // part of the expected error; empty: the call must succeed
}

// toolCalls form one scenario: the tools share only the broker.
func toolCalls() []toolCall {
	return []toolCall{
		{line: "amqp-declare-queue -d -q Q", want: "Q"},
		{line: "amqp-declare-queue -q Q", fails: "PRECONDITION_FAILED - inequivalent arg 'durable'"},
		{line: "amqp-publish -p -r Q -b hello"},
		{line: "amqp-publish -r Q", input: "from a pipe"},
		{line: "amqp-consume -q Q -c 2 cat", want: "hellofrom a pipe"},
		{line: "amqp-publish -r Q -l", input: "one\ntwo\nthree\n"},
		{line: "amqp-consume -A -q Q -c 3 cat", want: "one\ntwo\nthree"},
		{line: "amqp-delete-queue -q Q", want: "0"},
		{line: "amqp-consume -q Q -c 1 cat", fails: "NOT_FOUND - no queue 'Q' in vhost '/'"},
	}
}

// Tools runs amqp-tools on a broker and returns the differences.
func Tools(ctx context.Context, b Broker) (passed int, faults []string, err error) {
	there := func() bool { _, err := exec.LookPath("amqp-publish"); return err == nil }
	if err := apt(ctx, there, "amqp-tools"); err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for _, c := range toolCalls() {
		host, port := b.Address()
		words := strings.Fields(strings.ReplaceAll(c.line, " Q", " tools.queue"))
		args := append([]string{"-u", "amqp://guest:guest@" + net.JoinHostPort(host, port) + "/%2f"}, words[1:]...)
		cmd := exec.CommandContext(ctx, words[0], args...)
		complaint := &tail{}
		cmd.Stdin, cmd.Stderr = strings.NewReader(c.input), complaint
		out, failure := cmd.Output()
		want, fails := strings.ReplaceAll(c.want, "Q", "tools.queue"), strings.ReplaceAll(c.fails, "'Q'", "'tools.queue'")
		if got := strings.TrimSpace(string(out)); got != want || (failure != nil) != (fails != "") || !strings.Contains(complaint.String(), fails) {
			faults = append(faults, fmt.Sprintf("%s: %q, %v, %s; want %q, %q", c.line, got, failure, complaint, want, fails))
			continue
		}
		passed++
	}
	return passed, faults, nil
}

// runTools is Tools as a suite.
func runTools(ctx context.Context, y *tally, b Broker) error {
	name := "librabbitmq's amqp-tools on " + b.Kind()
	passed, faults, err := Tools(ctx, b)
	if errors.Is(err, ErrAbsent) {
		y.skip(name, err.Error())
		return nil
	}
	if err == nil {
		y.suite(name, passed, 0, faults, "")
	}
	return err
}

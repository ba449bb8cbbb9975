package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Options are the options of Run.
type Options struct {
	Out              io.Writer
	Clients, Brokers []string // empty: all
	Only             *regexp.Regexp
	Verbose          bool   // a JSON line for each scenario
	Rewrite          string // see Rewrite
}

// tally has the counts of all suites.
type tally struct {
	out                               io.Writer
	passed, expected, failed, skipped int
}

// say prints progress; an error in writing it changes nothing.
func (y *tally) say(format string, args ...any) { _, _ = fmt.Fprintf(y.out, format, args...) }

func (y *tally) skip(what, why string) {
	y.skipped++
	y.say("%-44s skipped: %s\n", what, why)
}

// suite prints the figures of one suite, then its failures.
func (y *tally) suite(name string, passed, expected int, faults []string, note string) {
	y.passed, y.expected, y.failed = y.passed+passed, y.expected+expected, y.failed+len(faults)
	y.say("%-44s → %d passed, %d expected failures, %d failed%s\n", name, passed, expected, len(faults), note)
	for _, f := range faults {
		y.say("FAILED %s\n", strings.TrimSpace(f))
	}
}

// one runs a suite of a single test; ErrAbsent skips it.
func (y *tally) one(name string, err error) {
	switch {
	case errors.Is(err, ErrAbsent):
		y.skip(name, err.Error())
	case err != nil:
		y.suite(name, 0, 0, []string{err.Error()}, "")
	default:
		y.suite(name, 1, 0, nil, "")
	}
}

// Run runs all clients against all brokers and reports whether nothing failed.
func Run(ctx context.Context, o Options) (bool, error) {
	scenarios, err := Load("scenarios")
	if err != nil {
		return false, err
	}
	scenarios = slices.DeleteFunc(scenarios, func(s Scenario) bool { return !o.Only.MatchString(s.Name) })
	y := &tally{out: o.Out}
	for _, kind := range []string{"quorate", "rabbitmq"} {
		if len(o.Brokers) > 0 && !slices.Contains(o.Brokers, kind) {
			continue
		}
		if err := runBroker(ctx, o, y, kind, scenarios); err != nil {
			return false, err
		}
	}
	if o.Rewrite == "" {
		if err := runMore(ctx, o, y); err != nil {
			return false, err
		}
	}
	y.say("%d of those that passed are expected failures: known differences\n", y.expected)
	y.say("%d passed, %d failed, %d skipped\n", y.passed+y.expected, y.failed, y.skipped)
	return y.failed == 0, nil
}

// runBroker runs all clients against one broker, then the suites without scenarios: tools, the
// closing test and the examples. A broker that is not installed counts as skipped.
func runBroker(ctx context.Context, o Options, y *tally, kind string, scenarios []Scenario) error {
	b, err := startBroker(ctx, kind)
	if errors.Is(err, ErrAbsent) {
		y.skip(kind, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	for _, k := range Kinds() {
		if len(o.Clients) > 0 && !slices.Contains(o.Clients, k.Name) {
			continue
		}
		if err := runClient(ctx, o, y, k, b, scenarios); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	if o.Rewrite == "" && o.Only.MatchString("tools") && (len(o.Clients) == 0 || slices.Contains(o.Clients, "amqp-tools")) {
		if err := runTools(ctx, y, b); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	if o.Rewrite == "" && o.Only.MatchString("closing") && (len(o.Clients) == 0 || slices.Contains(o.Clients, "amqplib")) {
		runClosing(ctx, y, b)
	}
	if o.Rewrite == "" && o.Only.MatchString("examples") && len(o.Clients) == 0 {
		if err := runExamples(ctx, y, b, kind); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return b.Close()
}

// runClosing closes connections amid messages. RabbitMQ resets those that still send: a known difference.
func runClosing(ctx context.Context, y *tally, b Broker) {
	name, err := "amqplib, closed amid messages, on "+b.Kind(), Closing(ctx, b, closingRounds)
	if b.Kind() == "rabbitmq" && err != nil && strings.Contains(err.Error(), "ECONNRESET") {
		y.suite(name, 0, 1, nil, "")
		return
	}
	y.one(name, err)
}

// Messages of a failover.
const failoverMessages = 2000

// runMore runs the suites without scripts: failovers, and the libraries' own tests.
func runMore(ctx context.Context, o Options, y *tally) error {
	if len(o.Brokers) > 0 && !slices.Contains(o.Brokers, "quorate") {
		return nil
	}
	binary, err := Binary()
	if err != nil {
		return err
	}
	if o.Only.MatchString("failover") {
		q, err := StartQuorate(ctx, binary, 3, 0)
		if err != nil {
			return err
		}
		for _, k := range Kinds() {
			if len(o.Clients) > 0 && !slices.Contains(o.Clients, k.Name) || !k.Failover {
				continue
			}
			y.one(k.Name+", its queue's leader is killed", Failover(ctx, k, q, failoverMessages))
		}
		if err := q.Close(); err != nil {
			return err
		}
	}
	if o.Only.MatchString("resume") && len(o.Clients) == 0 {
		if err := runResume(ctx, y, binary); err != nil {
			return err
		}
	}
	if !o.Only.MatchString("library") {
		return nil
	}
	return runLibraries(ctx, o, y)
}

// runLibraries runs the own tests of Go libraries, KEDA's scaler and Telegraf's plugin.
func runLibraries(ctx context.Context, o Options, y *tally) error {
	named := func(library, name string, tests func() (LibraryTests, error)) error {
		if len(o.Clients) > 0 && !slices.Contains(o.Clients, library) {
			return nil
		}
		r, err := tests()
		if errors.Is(err, ErrAbsent) {
			y.skip(name, err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		y.suite(name, r.Passed, len(r.Expected), r.Failed, "")
		for _, s := range r.Skipped {
			y.skip(name, s)
		}
		return nil
	}
	own := func(library string, tests func() (LibraryTests, error)) error {
		return named(library, library+"'s own tests", tests)
	}
	if err := own("amqp091-go", func() (LibraryTests, error) { return OwnTests(ctx) }); err != nil {
		return err
	}
	if err := own(rabbitHole().Name, func() (LibraryTests, error) { return RabbitHole(ctx) }); err != nil {
		return err
	}
	if err := named(keda().Name, "KEDA's scaler for RabbitMQ", func() (LibraryTests, error) { return KEDA(ctx) }); err != nil {
		return err
	}
	if err := named(telegraf().Name, "Telegraf's plugin for RabbitMQ", func() (LibraryTests, error) { return Telegraf(ctx) }); err != nil {
		return err
	}
	if err := own(terraformProvider().Name, func() (LibraryTests, error) { return Terraform(ctx) }); err != nil {
		return err
	}
	for _, l := range Libraries() {
		if err := own(l.Name, func() (LibraryTests, error) { return l.Tests(ctx, false) }); err != nil {
			return err
		}
	}
	return nil
}

// startBroker starts RabbitMQ, or three nodes of the binary that Binary finds.
func startBroker(ctx context.Context, kind string) (Broker, error) {
	if kind == "rabbitmq" {
		return StartRabbitMQ(ctx)
	}
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	return StartQuorate(ctx, binary, 3, 0)
}

// runClient plays the scenarios with one client. It leaves out those with commands that its library
// does not support. With Rewrite, it also writes the client's answers into the scenarios.
func runClient(ctx context.Context, o Options, y *tally, k Kind, b Broker, scenarios []Scenario) error {
	name := k.Name + " on " + b.Kind() + " (" + b.Version() + ")"
	line, err := k.Install(ctx)
	if errors.Is(err, ErrAbsent) {
		y.skip(name, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	c, err := StartClient(ctx, k.Name, line)
	if err != nil {
		return err
	}
	name = c.Version + " on " + b.Kind() + " (" + b.Version() + ")"
	var faults []string
	passed, expected, beyond := 0, 0, 0
	for i, s := range scenarios {
		if !c.Can(s) {
			beyond++
			continue
		}
		r := Play(s, c, b)
		switch r.Outcome {
		case Passed:
			passed++
		case Expected:
			expected++
		case Failed:
			faults = append(faults, s.Name+" ["+strings.Join(s.Rules, ", ")+"] "+s.Title+"\n"+r.Text)
		}
		if o.Verbose {
			text, _ := json.Marshal(map[string]any{
				"client": c.Version, "broker": b.Kind(), "scenario": s.Name, "outcome": r.Outcome.String(), "rules": r.Rules,
			})
			y.say("%s\n", text)
		}
		if o.Rewrite != "" {
			scenarios[i] = s.With(o.Rewrite, b.Kind(), r)
		}
	}
	note := ""
	if beyond > 0 {
		note = fmt.Sprintf("; %d scenarios use commands that it does not support", beyond)
	}
	y.suite(name, passed, expected, faults, note)
	if o.Rewrite != "" {
		if err := Save("scenarios", scenarios); err != nil {
			return err
		}
	}
	return c.Close()
}

// String returns the outcome's name.
func (o Outcome) String() string { return [...]string{"passed", "expected failure", "failed"}[o] }

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
)

// classic queues by the command line; an exclusive one lives as long as the command.
func TestDeclareClassic(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	c := testcluster.Start(t, 1)
	ctl := func(want int, contains, line string) {
		t.Helper()
		var o, e shared
		if got := run(t.Context(), append([]string{"-a", c.Addrs()[0]}, strings.Fields(line)...), &o, &e); got != want ||
			!strings.Contains(o.String()+e.String(), contains) {
			t.Errorf("quoratectl %s: %d, want %d and %q\n%s%s", line, got, want, contains, o.String(), e.String())
		}
	}
	ctl(0, "true", "queue declare t --transient")
	ctl(0, "false", "queue declare t --transient")
	ctl(1, "durable", "queue declare t -x x-queue-type=classic")
	ctl(1, "auto_delete", "queue declare a --auto-delete -x x-queue-type=quorum")
	ctl(0, "true", "queue declare a --auto-delete")
	ctl(0, "", "publish a body")
	ctl(0, "body", "consume a --count 1")
	testcluster.Poll(t, "the queue ends with its last consumer", func() error {
		var o, e shared
		if code := run(t.Context(), []string{"-a", c.Addrs()[0], "queue", "show", "a"}, &o, &e); code != exitRefused {
			return fmt.Errorf("%d: %s%s", code, o.String(), e.String())
		}
		return nil
	})

	holding, interrupt := context.WithCancel(t.Context())
	var o, e shared
	ended := make(chan int)
	go func() {
		ended <- run(holding, []string{"-a", c.Addrs()[0], "queue", "declare", "mine", "--exclusive"}, &o, &e)
	}()
	testcluster.Poll(t, "the exclusive queue is there", func() error {
		if !strings.Contains(o.String(), "mine") {
			return fmt.Errorf("%q %q", o.String(), e.String())
		}
		return nil
	})
	ctl(1, "RESOURCE_LOCKED", "get mine")
	interrupt()
	if code := <-ended; code != 0 {
		t.Errorf("the command ended with %d: %s", code, e.String())
	}
	testcluster.Poll(t, "the exclusive queue ends with the command", func() error {
		for q := range c.Cluster(0).View().Queues() {
			if q.Name == "mine" {
				return fmt.Errorf("%+v", q)
			}
		}
		return nil
	})
}

// C-9: a misspelt argument is reported, whatever is declared, and for programs beside the output.
func TestUnknownArguments(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	c := testcluster.Start(t, 1)
	ctl := func(want int, line string) (out, errs string) {
		t.Helper()
		var o, e shared
		if got := run(t.Context(), append([]string{"-a", c.Addrs()[0]}, strings.Fields(line)...), &o, &e); got != want {
			t.Errorf("quoratectl %s: %d, want %d\n%s%s", line, got, want, o.String(), e.String())
		}
		return o.String(), e.String()
	}
	const misspelt = "warning: queue \"q\": x-max-lngth is unknown and has no effect; did you mean x-max-length?\n"
	if out, errs := ctl(0, "queue declare q -x x-max-lngth=5"); errs != misspelt || strings.Contains(out, "lngth") {
		t.Errorf("%q on stderr, want %q\n%s", errs, misspelt, out)
	}
	if out, errs := ctl(0, "queue declare q -x x-max-lngth=5 -o json"); errs != misspelt || !strings.Contains(out, `"created": false`) {
		t.Errorf("%q on stderr, want %q\n%s", errs, misspelt, out)
	}
	if _, errs := ctl(0, "exchange declare x fanout -x x-foo=5"); errs != "warning: exchange \"x\": x-foo is unknown and has no effect\n" {
		t.Errorf("%q", errs)
	}
	if _, errs := ctl(0, "binding add amq.headers q -x x-mach=any -x kind=a"); !strings.Contains(errs, "did you mean x-match?") {
		t.Errorf("%q", errs)
	}
	if _, errs := ctl(exitUsage, "vhost put strict --unknown-arguments ignore"); !strings.Contains(errs, `is "ignore": use warn or refuse`) {
		t.Errorf("%q", errs)
	}
	testcluster.Poll(t, "a vhost that refuses, which needs the newest version", func() error {
		var o, e shared
		if code := run(t.Context(), []string{"-a", c.Addrs()[0], "vhost", "put", "strict", "--unknown-arguments", "refuse"}, &o, &e); code != 0 {
			return fmt.Errorf("%d: %s", code, e.String())
		}
		return nil
	})
	if _, errs := ctl(exitRefused, "queue declare q --vhost strict -x x-max-lngth=5"); !strings.Contains(errs, "did you mean x-max-length?") {
		t.Errorf("%q", errs)
	}
}

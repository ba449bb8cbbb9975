package serve

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// watched returns a watchdog whose exit codes are sent, with what it logs and the stacks that it writes.
func watched(log io.Writer) (w *watchdog, codes chan int, stacks *bytes.Buffer) {
	codes, stacks = make(chan int, 2), &bytes.Buffer{}
	w = newWatchdog("n1", slog.New(slog.NewTextHandler(log, nil)))
	w.exit, w.stacks = func(code int) { codes <- code }, stacks
	return w, codes, stacks
}

// A stop that takes too long ends the process, with what it waits for and the stacks of all.
func TestStopThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w, codes, stacks := watched(&log)
		began := time.Now()
		w.within(StopLimit)
		const drain = time.Minute + time.Second
		w.within(StopLimit + drain) // it has started meanwhile, and has leaders to hand over
		w.within(StopLimit)
		w.enter(phaseDrain)
		time.Sleep(drain)
		w.enter(phaseClients)
		if code := <-codes; code != ExitStopHangs {
			t.Errorf("exit code %d, want %d", code, ExitStopHangs)
		}
		if took := time.Since(began); took != StopLimit+drain {
			t.Errorf("it ended after %v", took)
		}
		for _, want := range []string{
			`msg="a phase of the stop has ended" node=n1 phase=draining took=1m1s`,
			`msg="the node is stopping" node=n1 waits_for=draining for=1m0s since_asked=1m0s`,
			`level=ERROR msg="the process ends although a part of it has not stopped; nothing that was confirmed is lost" node=n1 waits_for="` + phaseClients + `" for=25s limit=1m26s exit_code=70`,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log.String())
			}
		}
		if !strings.Contains(stacks.String(), "serve.TestStopThatHangs") {
			t.Errorf("the stacks lack this test's:\n%s", stacks)
		}
	})
}

// A log that nobody reads does not keep the process.
func TestStopWithLogThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unread, log := io.Pipe()
		w, codes, _ := watched(log)
		w.within(time.Second)
		began := time.Now()
		if code := <-codes; code != ExitStopHangs {
			t.Errorf("exit code %d, want %d", code, ExitStopHangs)
		}
		if took := time.Since(began); took != time.Second+lastWords {
			t.Errorf("it ended after %v", took)
		}
		_ = unread.Close() // what waits for the log continues
		w.done()
	})
}

// A stop that ends in time is none that is given up later.
func TestStopInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w, codes, _ := watched(&log)
		w.within(StopLimit)
		w.enter(phaseClients)
		time.Sleep(slowPhase / 2)
		w.done()
		time.Sleep(2 * StopLimit)
		if len(codes) > 0 || log.Len() > 0 {
			t.Errorf("%d exits, log:\n%s", len(codes), log.String())
		}
	})
}

// Stacks have a limit.
func TestCapped(t *testing.T) {
	var to bytes.Buffer
	out := &capped{to: &to, room: 5}
	for _, c := range []struct {
		text    string
		written int
		err     error
	}{{"abc", 3, nil}, {"defg", 2, errCapped}, {"h", 0, errCapped}} {
		if n, err := out.Write([]byte(c.text)); n != c.written || err != c.err { //nolint:errorlint // these very values
			t.Errorf("%q: %d, %v, want %d, %v", c.text, n, err, c.written, c.err)
		}
	}
	if to.String() != "abcde" {
		t.Errorf("%q", to.String())
	}
}

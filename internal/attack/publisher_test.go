//go:build linux

package attack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// The steady publisher is a process of its own: this binary, with the address of a node here, and the files of TLS if it needs
// some. What attackers do in
// the test's process does not hold it up.
const steadyVariable = "ATTACK_STEADY_PUBLISHER"

const (
	steadyEvery = 4 * time.Millisecond
	steadyBytes = 1000
	// starved is how long a confirm may take at most, whatever happens and however slow the machine is.
	starved = 15 * time.Second
)

func TestMain(m *testing.M) {
	if to := strings.Fields(os.Getenv(steadyVariable)); len(to) > 0 {
		if err := publishSteadily(to); err != nil {
			_, _ = fmt.Fprintln(os.Stdout, "fault", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(sinkVariable) != "" {
		if err := discard(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// publishSteadily publishes at a fixed rate until stdin ends, and writes of each message when it was due and how long
// after that it was confirmed, in nanoseconds. A message that could not be sent in time counts from when it was due.
func publishSteadily(to []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	config := client.Config{Addresses: to[:1], FixedAddresses: true}
	if len(to) > 1 {
		config.TLS = &client.TLS{CA: to[1], Cert: to[2], Key: to[3]}
	}
	c, err := client.Dial(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = c.DeclareQueue(ctx, client.Queue{Name: "steady"}); err != nil {
		return err
	}
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	body := make([]byte, steadyBytes)
	for due := time.Now(); ctx.Err() == nil; due = due.Add(steadyEvery) {
		time.Sleep(time.Until(due))
		err := p.PublishAsync(ctx, client.Message{RoutingKey: "steady", Body: body}, func(r client.Result, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				_, _ = fmt.Fprintln(out, "fault", err)
			case r.Outcome != client.Confirmed:
				_, _ = fmt.Fprintln(out, "fault", r)
			default:
				_, _ = fmt.Fprintln(out, due.UnixNano(), int64(time.Since(due)))
			}
			_ = out.Flush()
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// steady is what the test knows of the steady publisher.
type steady struct {
	v *victim

	mu      sync.Mutex
	samples []sample // of confirmed messages, in the order of their confirms
	fault   string
}

type sample struct {
	due  time.Time
	took time.Duration
}

// publishSteadily starts the steady publisher, which runs until the test's end.
func (v *victim) publishSteadily(tls ...string) *steady {
	v.Helper()
	self, err := os.Executable()
	if err != nil {
		v.Fatal(err)
	}
	cmd := exec.CommandContext(v.Context(), self)
	cmd.Env = append(os.Environ(), steadyVariable+"="+strings.Join(append([]string{v.node.Client}, tls...), " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		v.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		v.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		v.Fatal(err)
	}
	s := &steady{v: v}
	var reading sync.WaitGroup
	reading.Go(func() { s.read(out) })
	v.Cleanup(func() {
		_ = in.Close()
		reading.Wait()
		_ = cmd.Wait() // its faults were read
	})
	return s
}

func (s *steady) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var due, took int64
		_, err := fmt.Sscan(lines.Text(), &due, &took)
		s.mu.Lock()
		if err != nil {
			s.fault = lines.Text()
		} else {
			s.samples = append(s.samples, sample{time.Unix(0, due), time.Duration(took)})
		}
		s.mu.Unlock()
	}
}

// quantiles are those of confirms.
type quantiles struct{ p50, p99 time.Duration }

func quantilesOf(took []time.Duration) quantiles {
	slices.Sort(took)
	return quantiles{took[len(took)/2], took[len(took)*99/100]}
}

func (q quantiles) String() string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("%.1f/%.1f", ms(q.p50), ms(q.p99))
}

// phase waits for a time, and returns how long the confirms took of the messages that were due in it. All must be confirmed,
// and none may take longer than starved.
func (s *steady) phase(what string, lasts time.Duration) (took []time.Duration) {
	s.v.Helper()
	from := time.Now()
	to := from.Add(lasts)
	time.Sleep(lasts) // the measurement
	for {             // the messages of a publisher to one queue are confirmed in order
		s.mu.Lock()
		fault, later := s.fault, false
		took = took[:0]
		for _, x := range s.samples {
			later = later || !x.due.Before(to)
			if !x.due.Before(from) && x.due.Before(to) {
				took = append(took, x.took)
			}
		}
		s.mu.Unlock()
		if fault != "" {
			s.v.Fatalf("%s: the steady publisher: %s\n%s", what, fault, s.v.logs())
		}
		if later {
			break
		}
		if time.Since(to) > starved {
			s.v.Fatalf("%s: the steady publisher is starved: %d of its messages were confirmed in time\n%s", what, len(took), s.v.logs())
		}
		time.Sleep(poll)
	}
	if len(took) == 0 {
		s.v.Fatalf("%s: no message was confirmed", what)
	}
	if most := slices.Max(took); most > starved {
		s.v.Errorf("%s: a confirm took %v", what, most)
	}
	return took
}

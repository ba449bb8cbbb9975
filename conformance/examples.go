package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Example is a program of examples/amqp and its expected output.
type Example struct {
	Name string
	// Listeners are the arguments of runs that keep running. Senders are those of runs that follow,
	// one after the other, when all listeners have printed that they are ready.
	Listeners, Senders [][]string
	// Want are the lines of all runs together, in any order, without the ready lines.
	Want []string
}

// Examples returns the examples in a language: go, python or javascript.
func Examples(language string) []Example {
	work := Example{
		Name: "workqueue", Listeners: [][]string{{"work"}, {"work"}}, Senders: [][]string{{"add", "one thing"}, {"add", "two"}, {"add", "three"}},
		Want: []string{"added one thing", "added two", "added three", "did one thing", "did two", "did three"},
	}
	news := Example{
		Name: "publishsubscribe", Listeners: [][]string{{"listen"}, {"listen"}}, Senders: [][]string{{"publish", "door opened"}},
		Want: []string{"published door opened", "heard door opened", "heard door opened"},
	}
	rpc := Example{
		Name: "rpc", Listeners: [][]string{{"serve"}}, Senders: [][]string{{"ask", "12"}, {"ask", "7"}},
		Want: []string{"12 squared is 144", "7 squared is 49"},
	}
	retry := Example{
		Name: "retry", Listeners: [][]string{{"work"}}, Senders: [][]string{{"add", "the job"}},
		Want: []string{"try 1 of the job", "try 2 of the job", "try 3 of the job", "gave up the job"},
	}
	switch language {
	case "python":
		return []Example{work, rpc, {
			Name: "delay", Listeners: [][]string{{"wait"}}, Senders: [][]string{{"later", "tea"}},
			Want: []string{"later: tea", "due: tea after it expired"},
		}}
	case "javascript":
		return []Example{work, news, retry}
	}
	return []Example{work, news, rpc, retry, {
		Name: "routing", Listeners: [][]string{{"listen", "warning", "error"}, {"listen", "error"}},
		Senders: [][]string{{"log", "info", "a"}, {"log", "error", "b"}, {"log", "warning", "c"}},
		Want:    []string{"logged a", "logged b", "logged c", "error b", "error b", "warning c"},
	}, {
		Name: "topics", Listeners: [][]string{{"listen", "*.cellar.*"}, {"listen", "#.alarm", "attic.#"}},
		Senders: [][]string{{"publish", "a.cellar.alarm", "1"}, {"publish", "attic", "2"}, {"publish", "hall.door", "3"}},
		Want:    []string{"published a.cellar.alarm", "published attic", "published hall.door", "a.cellar.alarm 1", "a.cellar.alarm 1", "attic 2"},
	}, {
		Name: "confirms", Senders: [][]string{{"250"}},
		Want: []string{"one by one: 250 confirmed", "in batches: 250 confirmed", "as they come: 250 confirmed", "the queue had 750"},
	}, {
		Name: "delay", Listeners: [][]string{{"wait"}}, Senders: [][]string{{"after", "200", "tea"}},
		Want: []string{"later: tea", "due: tea"},
	}}
}

const examplesDir = "../examples/amqp"

// Program returns the beginning of an example's command line, and the environment that it needs.
func Program(ctx context.Context, language string) (line func(name string) []string, env []string, err error) {
	switch language {
	case "python":
		_, err := pika(ctx)
		return func(name string) []string {
			return []string{debianPython, filepath.Join(examplesDir, "python", name+".py")}
		}, nil, err
	case "javascript":
		_, err := node(ctx, "")
		modules, err2 := filepath.Abs("clients/node/node_modules")
		return func(name string) []string {
				return []string{"node", filepath.Join(examplesDir, "javascript", name+".js")}
			},
			[]string{"NODE_PATH=" + modules}, errors.Join(err, err2)
	}
	dir, err := filepath.Abs("../bin/examples")
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "./...")
	cmd.Dir = examplesDir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("examples: %w: %s", err, out)
	}
	return func(name string) []string { return []string{filepath.Join(dir, name)} }, nil, nil
}

// RunExample runs an example on a broker and compares its output.
func RunExample(ctx context.Context, x Example, line, env []string, b Broker) error {
	ctx, cancel := context.WithTimeout(ctx, patience())
	defer cancel() // stops the listeners as well
	command := func(args []string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, line[0], append(slices.Clone(line[1:]), args...)...)
		host, port := b.Address()
		cmd.Env = append(cmd.Environ(), append(env, "AMQP_URL=amqp://guest:guest@"+net.JoinHostPort(host, port)+"/")...)
		cmd.Stderr = &tail{}
		return cmd
	}
	heard := make(chan string, 1000)
	for _, args := range x.Listeners {
		cmd := command(args)
		out, err := cmd.StdoutPipe()
		if err := errors.Join(err, cmd.Start()); err != nil {
			return err
		}
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				heard <- lines.Text()
			}
			_ = cmd.Wait() // it was killed
		}()
	}
	var got []string
	ready := 0
	listen := func(until func() bool) error {
		for !until() {
			select {
			case l := <-heard:
				if l == "ready" {
					ready++
					continue
				}
				got = append(got, l)
			case <-ctx.Done():
				return fmt.Errorf("not in time; it printed %q, want %q", got, x.Want)
			}
		}
		return nil
	}
	if err := listen(func() bool { return ready == len(x.Listeners) }); err != nil {
		return err
	}
	for _, args := range x.Senders {
		cmd := command(args)
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%q: %w: %s", args, err, cmd.Stderr)
		}
		for l := range strings.Lines(string(bytes.TrimSpace(out))) {
			got = append(got, strings.TrimSpace(l))
		}
	}
	if err := listen(func() bool { return len(got) >= len(x.Want) }); err != nil {
		return err
	}
	want := slices.Sorted(slices.Values(x.Want))
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("it printed %q, want %q", got, want)
	}
	return nil
}

// runExamples runs the examples in all languages on a broker.
func runExamples(ctx context.Context, y *tally, b Broker, kind string) error {
	for _, language := range []string{"go", "python", "javascript"} {
		name := "examples in " + language + " on " + kind
		line, env, err := Program(ctx, language)
		if errors.Is(err, ErrAbsent) {
			y.skip(name, err.Error())
			continue
		}
		if err != nil {
			return err
		}
		passed, faults := 0, []string(nil)
		for _, x := range Examples(language) {
			if err := RunExample(ctx, x, line(x.Name), env, b); err != nil {
				faults = append(faults, x.Name+": "+err.Error())
				continue
			}
			passed++
		}
		y.suite(name, passed, 0, faults, "")
	}
	return nil
}

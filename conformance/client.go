package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// answerTimeout bounds the wait for an answer. Answers come much sooner unless the machine is very
// busy.
const answerTimeout = 3 * time.Minute

// maxLine bounds an answer, in bytes.
const maxLine = 64 << 20

// Answer is a client program's answer to a command.
type Answer struct {
	// Hello, in the first line only: the library with its version, and the commands that it supports.
	Client string   `json:"client,omitempty"`
	Verbs  []string `json:"verbs,omitempty"`

	Fault *Fault `json:"fault,omitempty"` // a channel or connection was closed
	// Broken is a failure of the library or of the program itself.
	Broken string `json:"broken,omitempty"`

	Queue     string    `json:"queue,omitempty"`
	Tag       string    `json:"tag,omitempty"`
	Messages  *int      `json:"messages,omitempty"`
	Consumers *int      `json:"consumers,omitempty"`
	Confirm   string    `json:"confirm,omitempty"` // ack, nack
	Returned  []Message `json:"returned,omitempty"`
	Got       []Message `json:"got,omitempty"`
	Empty     bool      `json:"empty,omitempty"`
	State     string    `json:"state,omitempty"`
	Acked     int       `json:"acked,omitempty"`
	Server    any       `json:"server,omitempty"` // properties of the server
}

// Fault is a close that the server sent.
type Fault struct {
	Scope string `json:"scope"` // channel or connection
	Code  int    `json:"code"`
	Text  string `json:"text"`
}

// Message is a message that was delivered, got or returned.
type Message struct {
	Code        int            `json:"code,omitempty"`
	Text        string         `json:"text,omitempty"`
	Tag         uint64         `json:"tag,omitempty"`
	Body        string         `json:"body"`
	Redelivered bool           `json:"redelivered,omitempty"`
	Exchange    string         `json:"exchange"`
	Key         string         `json:"key"`
	Properties  map[string]any `json:"props,omitempty"`
	Headers     map[string]any `json:"headers,omitempty"`
}

// ErrAbsent means that a client is not installed.
var ErrAbsent = errors.New("is not installed")

// Client is a running program of a client library. Its methods may be called by one
// goroutine at a time.
type Client struct {
	Name, Version string
	verbs         []string
	cmd           *exec.Cmd
	in            io.WriteCloser
	answers       chan Answer
	failed        error // why answers ended; read it once answers is closed
	stderr        *tail
}

// StartClient starts a client library's program.
func StartClient(ctx context.Context, name string, line []string) (*Client, error) {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	c := &Client{Name: name, cmd: cmd, answers: make(chan Answer), stderr: &tail{}}
	cmd.Stderr = c.stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, fmt.Errorf("client %s: %w", name, err)
	}
	c.in = in
	go c.read(out)
	hello, err := c.next()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("client %s did not start: %w", name, err), c.Close())
	}
	c.Version, c.verbs = hello.Client, hello.Verbs
	return c, nil
}

// read sends the lines of the program's output to next until the output ends. It sets failed before
// it closes answers.
func (c *Client) read(out io.Reader) {
	defer close(c.answers)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var a Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			c.failed = fmt.Errorf("%q is not an answer: %w", lines.Text(), err)
			return
		}
		c.answers <- a
	}
	c.failed = lines.Err()
}

// next waits for the answer to the last command, at most answerTimeout. An error has the program's
// standard error in it.
func (c *Client) next() (Answer, error) {
	select {
	case a, more := <-c.answers:
		if !more {
			return Answer{}, errors.Join(fmt.Errorf("the program ended; its standard error: %s", c.stderr), c.failed)
		}
		return a, nil
	case <-time.After(answerTimeout):
		return Answer{}, fmt.Errorf("no answer in %v; standard error: %s", answerTimeout, c.stderr)
	}
}

// Can reports whether the library supports all commands of a scenario.
func (c *Client) Can(s Scenario) bool {
	return !slices.ContainsFunc(s.Steps, func(step Step) bool {
		return step.Do != "await" && !slices.Contains(c.verbs, step.Do)
	})
}

// Call makes the client carry out a command.
func (c *Client) Call(do string, args map[string]any) (Answer, error) {
	m := map[string]any{"do": do}
	for k, v := range args {
		m[k] = v
	}
	line, err := json.Marshal(m)
	if err != nil {
		return Answer{}, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return Answer{}, fmt.Errorf("client %s: %w; standard error: %s", c.Name, err, c.stderr)
	}
	a, err := c.next()
	if err != nil {
		return a, fmt.Errorf("client %s: %s: %w", c.Name, do, err)
	}
	return a, nil
}

// Close ends the program.
func (c *Client) Close() error {
	_ = c.in.Close() // it ends when its input ends
	go func() {
		for range c.answers { // answers for which nothing waits any longer
		}
	}()
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(answerTimeout):
		return errors.Join(fmt.Errorf("client %s did not end", c.Name), c.cmd.Process.Kill())
	}
}

// tail keeps the end of a program's output.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 2000

// Write appends to the tail and drops the oldest bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > tailBytes {
		t.buf = bytes.Clone(t.buf[len(t.buf)-tailBytes:])
	}
	return len(p), nil
}

// String returns the end of the output.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

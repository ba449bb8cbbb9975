package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// pollEvery is how often a condition of a process is checked.
const pollEvery = 20 * time.Millisecond

// Node is one node of a Cluster: a data directory, addresses, and at times a process.
type Node struct {
	ID     string
	Dir    string // holds node.yaml, data and node.log
	Client string // addresses, on loopback or on its Host
	Peer   string
	Gossip string
	HTTP   string
	AMQP   string
	// Management is where the node serves its page; see ClusterConfig.Managed.
	Management string
	// PeerAt and GossipAt are where others find Peer and Gossip; see ClusterConfig.Apart.
	PeerAt, GossipAt string
	host             string // that the node advertises; empty: as it listens
	binary           string
	enter            []string // before the binary; see Host
	env              []string // besides this process's
	onThread         func(node string) error
	mu               sync.Mutex
	process          *os.Process // nil: not running
	exited           chan struct{}
	state            *os.ProcessState
	paused           bool
	cpu              time.Duration // of processes that have ended
}

// LogFile returns where the node's processes write.
func (n *Node) LogFile() string { return filepath.Join(n.Dir, "node.log") }

// DataDir returns the node's data directory.
func (n *Node) DataDir() string { return filepath.Join(n.Dir, "data") }

// Use makes the node run another build from its next start on, with these variables in its
// environment besides.
func (n *Node) Use(binary string, env ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.binary, n.env = binary, env
}

// Start starts the node's process.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		return fmt.Errorf("chaos: node %s runs already, as process %d", n.ID, n.process.Pid)
	}
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	line := n.line("node")
	cmd := exec.Command(line[0], line[1:]...) //nolint:noctx // its life is Kill's and Stop's, not a context's
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr, cmd.Env = log, log, childAttributes(), n.environment()
	started := make(chan error)
	exited := make(chan struct{})
	go func() {
		// The kernel ties the child to this thread, so it must last as long.
		runtime.LockOSThread()
		var err error
		if n.onThread == nil {
			defer runtime.UnlockOSThread()
		} else { // nobody else may have this thread: it ends with the goroutine
			err = n.onThread(n.ID)
		}
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // the state has how it ended
		_ = log.Close()
		n.mu.Lock()
		n.process, n.state, n.paused = nil, cmd.ProcessState, false
		n.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		n.mu.Unlock()
		close(exited)
	}()
	if err := <-started; err != nil {
		return errors.Join(fmt.Errorf("chaos: start node %s: %w", n.ID, err), log.Close())
	}
	n.process, n.exited = cmd.Process, exited
	return nil
}

// line returns the command that runs a part of the node's program with the node's settings, where the node runs.
func (n *Node) line(part string, flags ...string) []string {
	return slices.Concat(n.enter, []string{n.binary, part, "--config", filepath.Join(n.Dir, "node.yaml")}, flags)
}

// environment returns this process's without what would be settings of the node, and what Use has added.
func (n *Node) environment() []string {
	var out []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "QUORATE_") {
			out = append(out, e)
		}
	}
	return append(out, n.env...)
}

// Recover runs quorate recover on a node that has ended: it continues without those that are lost for good.
func (n *Node) Recover(ctx context.Context, lost []string) error {
	all := strings.Join(lost, ",")
	line := n.line("recover", "--lost", all, "--accept-loss", all)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = n.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("chaos: recover node %s without %s: %w: %s", n.ID, all, err, bytes.TrimSpace(out))
	}
	return nil
}

// Running reports whether the node has a process, and its id.
func (n *Node) Running() (pid int, running bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0, false
	}
	return n.process.Pid, true
}

func (n *Node) signal(s syscall.Signal) (exited chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil, fmt.Errorf("chaos: node %s does not run: %s", n.ID, n.tail())
	}
	if err := n.process.Signal(s); err != nil {
		return nil, fmt.Errorf("chaos: %v to node %s: %w", s, n.ID, err)
	}
	n.paused = s == syscall.SIGSTOP
	return n.exited, nil
}

// Kill ends the process at once and waits until it is gone.
func (n *Node) Kill() error {
	exited, err := n.signal(syscall.SIGKILL)
	if err == nil {
		<-exited
	}
	return err
}

// Pause stops the process where it stands; Resume lets it go on.
func (n *Node) Pause() error {
	_, err := n.signal(syscall.SIGSTOP)
	return err
}

// Resume ends a pause.
func (n *Node) Resume() error {
	_, err := n.signal(syscall.SIGCONT)
	return err
}

// quitTime is how long a process has to write the stacks of its goroutines to its log.
const quitTime = 5 * time.Second

// quit ends a process that did not stop, with the stacks of its goroutines in its log.
func (n *Node) quit() error {
	exited, err := n.signal(syscall.SIGQUIT)
	if err != nil {
		return err
	}
	select {
	case <-exited:
		return nil
	case <-time.After(quitTime):
		return n.Kill()
	}
}

// Stop asks the process to drain and end. When ctx ends first that is an error, and the process is ended, with the stacks of
// its goroutines in its log.
func (n *Node) Stop(ctx context.Context) error {
	exited, err := n.signal(syscall.SIGTERM)
	if err != nil {
		return err
	}
	select {
	case <-exited:
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.state.Success() {
			return fmt.Errorf("chaos: node %s ended with %v: %s", n.ID, n.state, n.tail())
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("chaos: node %s did not stop in time: %w: its goroutines are in %s", n.ID, ctx.Err(), n.LogFile()), n.quit())
	}
}

// Ready asks the node's health endpoint once: nil, or why it is not ready.
func (n *Node) Ready(ctx context.Context) error {
	if _, running := n.Running(); !running {
		return fmt.Errorf("chaos: node %s does not run: %s", n.ID, n.tail())
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/health/ready", nil)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("chaos: node %s: %w", n.ID, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	err = errors.Join(err, response.Body.Close())
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("chaos: node %s is not ready: %s", n.ID, strings.TrimSpace(string(body)))
	}
	return err
}

// tail returns the end of the log in one line, to be quoted in errors.
func (n *Node) tail() string {
	const bytes = 400
	text, err := os.ReadFile(n.LogFile())
	if err != nil {
		return err.Error()
	}
	if len(text) > bytes {
		text = text[len(text)-bytes:]
	}
	return fmt.Sprintf("end of %s: %q", n.LogFile(), text)
}

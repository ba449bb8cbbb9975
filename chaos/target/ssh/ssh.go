// Package ssh drives nodes on hosts that ssh reaches: it ends, pauses and starts their processes, by
// systemd or by a file with the process's number. What would last is also scheduled to end on the
// host itself, so that it does even if this program is killed.
package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/remote"
	"github.com/quorate/quorate/internal/wait"
)

// Options say how nodes are found. Zero values are the defaults.
type Options struct {
	Hosts map[string]string // what ssh connects to, by the node's id; a node without one: its id
	Unit  string            // systemd's name of the node; "": quorate, unless PIDFile is set
	// PIDFile has the number of the node's process, and StartCommand starts it, where there is no
	// systemd.
	PIDFile, StartCommand string
	Sudo                  bool // signals and systemctl need sudo, which asks for no password
}

// Cluster drives nodes over ssh. All methods may be called concurrently, for different nodes.
type Cluster struct {
	*remote.Cluster

	options Options
	deadMan time.Duration // see remote.DeadMan
	mu      sync.Mutex
	faults  int            // so many were scheduled to end
	lasting map[string]int // faults that were scheduled to end, by node
}

var _ interface {
	target.Cluster
	target.Processes
	target.Pausing
	target.Partial
} = (*Cluster)(nil)

// New drives the nodes of a cluster.
func New(c *remote.Cluster, o Options) (*Cluster, error) {
	if o.PIDFile == "" {
		o.Unit = cmp.Or(o.Unit, "quorate")
	}
	if o.PIDFile != "" && o.Unit != "" {
		return nil, errors.New("ssh: name a unit of systemd or a file with the process's number, not both")
	}
	return &Cluster{Cluster: c, options: o, deadMan: remote.DeadMan, lasting: map[string]int{}}, nil
}

// Lacks implements target.Partial.
func (c *Cluster) Lacks(ability any) error {
	if _, processes := ability.(*target.Processes); processes && c.options.PIDFile != "" && c.options.StartCommand == "" {
		return errors.New("ssh: nothing says how nodes are started: name the command with --start-command, or systemd's unit with --unit")
	}
	return nil
}

// pollEvery is how often a host is asked whether a process is there.
const pollEvery = remote.DeadMan / 200

// script runs a script of the shell on the node's host. In it, $pid is the node's process, empty
// without one, and $sudo begins what needs rights.
func (c *Cluster) script(ctx context.Context, node, text string) (string, error) {
	sudo := ""
	if c.options.Sudo {
		sudo = "sudo -n"
	}
	find := "pid=$($sudo systemctl show --property=MainPID --value " + quoted(c.options.Unit) + "); [ \"$pid\" != 0 ] || pid="
	if c.options.PIDFile != "" {
		find = "pid=$(cat " + quoted(c.options.PIDFile) + "); kill -0 \"$pid\" 2>/dev/null || pid="
	}
	host := cmp.Or(c.options.Hosts[node], node)
	out, err := remote.Run(ctx, "", "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", host,
		"sudo="+quoted(sudo)+"; "+find+"; "+text)
	if err != nil {
		return "", fmt.Errorf("ssh: node %s: %w", node, err)
	}
	return strings.TrimSpace(out), nil
}

// quoted is a word of the shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// control ends or starts the process: by systemd, or by a signal or the command.
func (c *Cluster) control(systemd, other string) string {
	if c.options.Unit != "" {
		return "$sudo systemctl " + systemd + " " + quoted(c.options.Unit)
	}
	return other
}

// start is what starts the node's process.
func (c *Cluster) start() string {
	return c.control("start", `[ -n "$pid" ] || `+cmp.Or(c.options.StartCommand, "true")+` >/dev/null 2>&1 </dev/null &`)
}

// lasts schedules on the host that something is done after remote.DeadMan, unless the fault of the
// node is over before.
func (c *Cluster) lasts(node, do string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults++
	c.lasting[node] = c.faults
	mark := c.mark(node, c.faults)
	return fmt.Sprintf("touch %s && { (sleep %d; if [ -e %s ]; then rm -f %s; %s; fi) >/dev/null 2>&1 </dev/null & }; ",
		mark, int(c.deadMan.Seconds()), mark, mark, do)
}

// over takes back what lasts has scheduled.
func (c *Cluster) over(node string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "rm -f " + c.mark(node, c.lasting[node]) + "; "
}

// mark is a file on the host that is there as long as a fault lasts.
func (*Cluster) mark(node string, fault int) string {
	return quoted("/tmp/.quorate-chaos-" + node + "-" + strconv.Itoa(fault))
}

// Kill implements target.Processes.
func (c *Cluster) Kill(ctx context.Context, node string) error {
	kill := c.control("kill --kill-whom=main --signal=KILL", `$sudo kill -KILL "$pid"`)
	_, err := c.script(ctx, node, c.lasts(node, c.start())+kill+`; while $sudo kill -0 "$pid" 2>/dev/null; do sleep 0.02; done`)
	return err
}

// Stop implements target.Processes.
func (c *Cluster) Stop(ctx context.Context, node string) error {
	stop := c.control("stop", `$sudo kill -TERM "$pid"; while $sudo kill -0 "$pid" 2>/dev/null; do sleep 0.02; done`)
	_, err := c.script(ctx, node, c.lasts(node, c.start())+stop)
	return err
}

// Start implements target.Processes. A process that runs already, because systemd started it again,
// is as good.
func (c *Cluster) Start(ctx context.Context, node string) error {
	if _, err := c.script(ctx, node, c.over(node)+c.control("reset-failed", "true")+"; "+c.start()); err != nil {
		return err
	}
	for !c.running(ctx, node) {
		if err := wait.For(ctx, pollEvery); err != nil {
			return fmt.Errorf("ssh: node %s has no process: %w", node, err)
		}
	}
	return nil
}

// Running implements target.Processes.
func (c *Cluster) Running(node string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), remote.DeadMan)
	defer cancel()
	return c.running(ctx, node)
}

func (c *Cluster) running(ctx context.Context, node string) bool {
	pid, err := c.script(ctx, node, `echo "$pid"`)
	return err == nil && pid != ""
}

// Pause implements target.Pausing.
func (c *Cluster) Pause(ctx context.Context, node string) error {
	_, err := c.script(ctx, node, c.lasts(node, `$sudo kill -CONT "$pid"`)+`$sudo kill -STOP "$pid"`)
	return err
}

// Resume implements target.Pausing.
func (c *Cluster) Resume(ctx context.Context, node string) error {
	_, err := c.script(ctx, node, c.over(node)+`$sudo kill -CONT "$pid"`)
	return err
}

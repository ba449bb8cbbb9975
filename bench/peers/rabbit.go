package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rabbit is RabbitMQ with quorum queues.
type rabbit struct {
	bin     string // directory of rabbitmq-server and rabbitmqctl
	version string
	dir     string
	epmd    int // port of its Erlang port mapper
	amqp    []int
	dist    []int
	mapper  *process
	servers []*process
}

// Debian keeps the scripts themselves here; those in PATH switch to another user.
const debianRabbit = "/usr/lib/rabbitmq/bin"

// findRabbit looks for RabbitMQ: in bin, or where it is usually installed.
func findRabbit(ctx context.Context, bin string) (*rabbit, error) {
	if bin == "" {
		bin = debianRabbit
		if _, err := os.Stat(bin); err != nil {
			path, err := exec.LookPath("rabbitmq-server")
			if err != nil {
				return nil, missing{"RabbitMQ", "rabbitmq-server is not installed; name its directory with -rabbitmq"}
			}
			bin = filepath.Dir(path)
		}
	}
	if _, err := exec.LookPath("epmd"); err != nil {
		return nil, missing{"RabbitMQ", "epmd, of Erlang, is not in PATH"}
	}
	r := &rabbit{bin: bin}
	home, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(home) }()
	cmd := exec.CommandContext(ctx, r.program("rabbitmqctl"), "version")
	cmd.Env = append(os.Environ(), "HOME="+home)
	out, err := cmd.Output()
	if err != nil {
		return nil, missing{"RabbitMQ", fmt.Sprintf("%s version: %v", r.program("rabbitmqctl"), err)}
	}
	lines := strings.Fields(string(out))
	if len(lines) > 0 {
		r.version = lines[len(lines)-1]
	}
	return r, nil
}

func (r *rabbit) program(name string) string { return filepath.Join(r.bin, name) }

func (r *rabbit) name() string { return "RabbitMQ" }

func (r *rabbit) about() string {
	return r.version + ", AMQP 0-9-1, quorum queues with three members, which sync before they confirm"
}

func (r *rabbit) node(i int) string { return fmt.Sprintf("q%d@localhost", i+1) }

// home is the directory of a node, with the Erlang cookie that all nodes share.
func (r *rabbit) home(i int) string { return filepath.Join(r.dir, fmt.Sprintf("rabbit%d", i+1)) }

// prepare creates a node's home. All nodes need the same cookie to join.
func (r *rabbit) prepare(i int) error {
	dir := r.home(i)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, ".erlang.cookie"), []byte("QUORATEBENCH"), 0o400),
		os.WriteFile(filepath.Join(dir, "enabled_plugins"), []byte("[]."), 0o600),
	)
}

// environment gives a node directories and ports of its own, so that an installed RabbitMQ stays
// untouched.
func (r *rabbit) environment(i int) []string {
	dir := r.home(i)
	return []string{
		"HOME=" + dir, fmt.Sprint("ERL_EPMD_PORT=", r.epmd), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=" + r.node(i), "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		fmt.Sprint("RABBITMQ_NODE_PORT=", r.amqp[i]), fmt.Sprint("RABBITMQ_DIST_PORT=", r.dist[i]),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "mnesia"), "RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "enabled_plugins"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "none"), "RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none.env"),
		"RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	}
}

// start starts the port mapper and three nodes, then joins the second and the third to the first.
func (r *rabbit) start(ctx context.Context, dir string) error {
	r.dir = dir
	all, err := ports(1 + 2*serverCount)
	if err != nil {
		return err
	}
	r.epmd, r.amqp, r.dist = all[0], all[1:1+serverCount], all[1+serverCount:]
	if r.mapper, err = run(dir, "epmd", nil, "epmd", "-port", fmt.Sprint(r.epmd), "-address", "127.0.0.1"); err != nil {
		return err
	}
	for i := range serverCount {
		if err := r.prepare(i); err != nil {
			return err
		}
		p, err := run(dir, fmt.Sprint("rabbitmq-", i+1), r.environment(i), r.program("rabbitmq-server"))
		if err != nil {
			return err
		}
		r.servers = append(r.servers, p)
	}
	for i, p := range r.servers {
		if err := p.awaitPort(ctx, loopback(r.amqp[i])); err != nil {
			return err
		}
		if err := r.control(ctx, i, "await_startup"); err != nil {
			return err
		}
	}
	for i := 1; i < serverCount; i++ {
		for _, words := range [][]string{{"stop_app"}, {"join_cluster", r.node(0)}, {"start_app"}} {
			if err := r.control(ctx, i, words...); err != nil {
				return err
			}
		}
	}
	return nil
}

// control runs rabbitmqctl against node i.
func (r *rabbit) control(ctx context.Context, i int, words ...string) error {
	cmd := exec.CommandContext(ctx, r.program("rabbitmqctl"), append([]string{"-q"}, words...)...)
	cmd.Env = append(os.Environ(), r.environment(i)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// stop stops the nodes, then the port mapper.
func (r *rabbit) stop() error {
	for _, p := range r.servers {
		p.end()
	}
	if r.mapper != nil {
		r.mapper.end()
	}
	return nil
}

// roots returns the processes whose processor time counts. The port mapper is not one of them: it
// is idle while messages flow.
func (r *rabbit) roots() []int {
	var out []int
	for _, p := range r.servers {
		out = append(out, p.pid)
	}
	return out
}

func (r *rabbit) session(ctx context.Context, i int) (session, error) {
	return dialAMQP(ctx, loopback(r.amqp[i]))
}

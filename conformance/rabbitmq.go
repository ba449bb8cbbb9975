package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/loopback"
)

// RabbitMQ is a node of RabbitMQ as Debian packages it, with files, ports and a name of its
// own.
type RabbitMQ struct {
	version, port, dir, node string
	cmd                      *exec.Cmd
	ended                    chan struct{}
	log                      *tail
	env                      []string
}

// Debian's package installs its programs here; those in /usr/sbin run as another user.
const rabbitPrograms = "/usr/lib/rabbitmq/bin"

// freePorts returns free ports of loopback.
func freePorts(n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		address, err := loopback.Address()
		if err != nil {
			return nil, err
		}
		if _, ports[i], err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// StartRabbitMQ starts a node; ErrAbsent if it is not installed.
func StartRabbitMQ(ctx context.Context) (*RabbitMQ, error) {
	server := filepath.Join(rabbitPrograms, "rabbitmq-server")
	if _, err := os.Stat(server); err != nil {
		return nil, fmt.Errorf("rabbitmq-server %w: apt-get install rabbitmq-server", ErrAbsent)
	}
	dir, err := os.MkdirTemp("", "rabbitmq")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r := &RabbitMQ{port: ports[0], dir: dir, node: "conformance" + ports[0] + "@localhost", log: &tail{}, ended: make(chan struct{})}
	config := filepath.Join(dir, "rabbitmq.conf")
	plugins := filepath.Join(dir, "plugins")
	err = errors.Join(
		os.WriteFile(config, []byte("listeners.tcp.1 = 127.0.0.1:"+ports[0]+"\nlog.console.level = warning\n"), 0o600),
		os.WriteFile(plugins, []byte("[].\n"), 0o600),
	)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r.env = append(os.Environ(), "HOME="+dir, "RABBITMQ_NODENAME="+r.node, "RABBITMQ_NODE_PORT="+ports[0], "RABBITMQ_DIST_PORT="+ports[1],
		"ERL_EPMD_PORT="+ports[2], "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_CONFIG_FILE="+config, "RABBITMQ_ENABLED_PLUGINS_FILE="+plugins,
		"RABBITMQ_MNESIA_BASE="+filepath.Join(dir, "data"), "RABBITMQ_LOG_BASE="+filepath.Join(dir, "log"), "RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE="+filepath.Join(dir, "pid"), "RABBITMQ_CONF_ENV_FILE="+filepath.Join(dir, "none"))
	r.cmd = exec.CommandContext(ctx, server)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, r.log, r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		_ = r.cmd.Wait() // the log has the reason
		close(r.ended)
	}()
	if err := r.await(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if r.version, err = r.ctl(ctx, "version"); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// await waits until the node answers.
func (r *RabbitMQ) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if _, err := r.ctl(ctx, "await_startup", "--timeout", "60"); err == nil {
			return nil
		}
		select {
		case <-r.ended:
			return fmt.Errorf("rabbitmq-server ended: %s", r.log)
		case <-ctx.Done():
			return fmt.Errorf("rabbitmq-server does not start: %w: %s", ctx.Err(), r.log)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// ctl runs rabbitmqctl against this node and returns what it prints.
func (r *RabbitMQ) ctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(rabbitPrograms, "rabbitmqctl"), append([]string{"-q", "-n", r.node}, args...)...)
	var errs bytes.Buffer
	cmd.Env, cmd.Stderr = r.env, &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", args[0], err, firstLine(errs.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// Kind returns rabbitmq.
func (r *RabbitMQ) Kind() string { return "rabbitmq" }

// Version returns the node's version.
func (r *RabbitMQ) Version() string { return r.version }

// Address returns the node's address.
func (r *RabbitMQ) Address() (host, port string) { return "127.0.0.1", r.port }

// Close stops the node and its port mapper daemon, and removes its files.
func (r *RabbitMQ) Close() error {
	// The server is a shell script, so the whole process group ends.
	err := syscall.Kill(-r.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		err = errors.Join(err, syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL))
		<-r.ended
	}
	epmd := exec.Command("epmd", "-kill") //nolint:noctx // at the end of everything
	epmd.Env = r.env
	return errors.Join(err, epmd.Run(), os.RemoveAll(r.dir))
}

//go:build linux

package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

// errNoTerminal and errNoAttach say what this runtime cannot do.
var (
	errNoTerminal = errors.New("this runtime has no terminals: run kubectl exec without -t")
	errNoAttach   = errors.New("this runtime cannot attach to a container: use kubectl logs or kubectl exec")
)

// running returns a container that runs.
func (r *Runtime) running(id string) (*container, error) {
	c, err := r.container(id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.state != cri.ContainerState_CONTAINER_RUNNING {
		return nil, status.Errorf(codes.FailedPrecondition, "container %s does not run", id)
	}
	return c, nil
}

func (c *container) execute(ctx context.Context, args []string, in io.Reader, stdout, stderr io.Writer) (int, error) {
	return execute(ctx, c.sandbox.ns, c.cmd.Process.Pid, c.root, c.program, args, in, stdout, stderr)
}

// ExecSync runs a program in a container, for probes and hooks.
func (r *Runtime) ExecSync(ctx context.Context, q *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	c, err := r.running(q.ContainerId)
	if err != nil {
		return nil, err
	}
	if q.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(q.Timeout)*time.Second)
		defer cancel()
	}
	var stdout, stderr bytes.Buffer
	code, err := c.execute(ctx, q.Cmd, nil, &stdout, &stderr)
	if ctx.Err() != nil {
		return nil, status.Errorf(codes.DeadlineExceeded, "%q runs longer than %d s", q.Cmd, q.Timeout)
	}
	return &cri.ExecSyncResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: int32(code)}, err
}

// Exec returns where the kubelet asks for it.
func (r *Runtime) Exec(_ context.Context, q *cri.ExecRequest) (*cri.ExecResponse, error) {
	if _, err := r.running(q.ContainerId); err != nil {
		return nil, err
	}
	if q.Tty {
		return nil, status.Error(codes.Unimplemented, errNoTerminal.Error())
	}
	return r.streams.GetExec(q)
}

// streamer does what the streaming server has agreed with a client.
type streamer struct{ r *Runtime }

// Exec runs a program in a container with its streams.
func (s streamer) Exec(ctx context.Context, id string, args []string, in io.Reader, stdout, stderr io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize) error {
	if tty {
		return errNoTerminal
	}
	c, err := s.r.running(id)
	if err != nil {
		return err
	}
	code, err := c.execute(ctx, args, in, stdout, stderr)
	if err == nil && code != 0 {
		err = exec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
	}
	return err
}

// Attach is not there.
func (s streamer) Attach(context.Context, string, io.Reader, io.WriteCloser, io.WriteCloser, bool, <-chan remotecommand.TerminalSize) error {
	return errNoAttach
}

// PortForward connects a stream with a port of a pod's loopback interface.
func (s streamer) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	s.r.mu.Lock()
	pod := s.r.sandboxes[id]
	s.r.mu.Unlock()
	if pod == nil {
		return status.Errorf(codes.NotFound, "no pod %s", id)
	}
	var conn net.Conn
	err := onThread(func() error {
		if err := pod.ns.enter(); err != nil {
			return err
		}
		var err error
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // one side is gone
	done := make(chan error, 2)
	go func() { _, err := io.Copy(conn, stream); done <- err }()
	go func() { _, err := io.Copy(stream, conn); done <- err }()
	return <-done
}

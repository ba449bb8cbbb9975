//go:build linux

package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one start of a manifest's container. The runtime's mutex guards what changes.
type container struct {
	id      string
	sandbox *sandbox
	config  *cri.ContainerConfig
	image   *stored
	program program
	root    root
	log     *containerLog
	created time.Time

	state    cri.ContainerState
	started  time.Time
	finished time.Time
	code     int
	fault    string        // why it could not be waited for
	cmd      *exec.Cmd     // nil until it has started
	done     chan struct{} // closed when it is over
}

// CreateContainer prepares a container in a pod.
func (r *Runtime) CreateContainer(_ context.Context, q *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	r.mu.Lock()
	s := r.sandboxes[q.PodSandboxId]
	r.mu.Unlock()
	im := r.config.Images.get(q.Config.GetImage().GetImage())
	switch {
	case s == nil:
		return nil, status.Errorf(codes.NotFound, "no pod %s", q.PodSandboxId)
	case im == nil:
		return nil, status.Errorf(codes.NotFound, "no image %s", q.Config.GetImage().GetImage())
	}
	p, err := programOf(im, q.Config, s.hostname())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	id := newID()
	c := &container{
		id: id, sandbox: s, config: q.Config, image: im, program: p, created: time.Now(), done: make(chan struct{}),
		root: root{
			lower: im.root, dir: filepath.Join(r.config.Dir, id), mounts: q.Config.Mounts,
			readonly: q.Config.GetLinux().GetSecurityContext().GetReadonlyRootfs(),
			files:    map[string]string{"/etc/resolv.conf": resolv(s.config.DnsConfig), "/etc/hostname": s.hostname() + "\n"},
		},
	}
	if err := os.Mkdir(c.root.dir, 0o755); err != nil {
		return nil, err
	}
	if c.log, err = openLog(filepath.Join(s.config.LogDirectory, q.Config.LogPath)); err != nil {
		return nil, fmt.Errorf("open the container's log: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id] = c
	return &cri.CreateContainerResponse{ContainerId: id}, nil
}

// StartContainer starts a container's process.
func (r *Runtime) StartContainer(_ context.Context, q *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	c, err := r.container(q.ContainerId)
	if err != nil {
		return nil, err
	}
	// The process outlives the call.
	cmd, err := start(context.Background(), c.sandbox.ns, c.root, c.program, &stream{log: c.log, name: "stdout"}, &stream{log: c.log, name: "stderr"})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.config.Metadata.Name, err)
	}
	r.mu.Lock()
	c.cmd, c.state, c.started = cmd, cri.ContainerState_CONTAINER_RUNNING, time.Now()
	r.mu.Unlock()
	go r.wait(c)
	return &cri.StartContainerResponse{}, nil
}

// wait records how a container ends.
func (r *Runtime) wait(c *container) {
	code, err := codeOf(c.cmd.Wait())
	r.mu.Lock()
	defer r.mu.Unlock()
	c.state, c.finished, c.code = cri.ContainerState_CONTAINER_EXITED, time.Now(), code
	if err != nil {
		c.fault, c.code = err.Error(), 255
	}
	close(c.done)
}

// StopContainer orders a container to end, and kills it when the time is over.
func (r *Runtime) StopContainer(_ context.Context, q *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	c, err := r.container(q.ContainerId)
	if err != nil {
		return &cri.StopContainerResponse{}, nil //nolint:nilerr // what is not there has stopped
	}
	r.stop(c, time.Duration(q.Timeout)*time.Second)
	return &cri.StopContainerResponse{}, nil
}

// stop returns when the container has ended.
func (r *Runtime) stop(c *container, grace time.Duration) {
	r.mu.Lock()
	running := c.state == cri.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()
	if !running {
		return
	}
	if grace > 0 {
		_ = c.cmd.Process.Signal(unix.SIGTERM) // it may just have ended
		select {
		case <-c.done:
			return
		case <-time.After(grace):
		}
	}
	_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL) // it may just have ended
	<-c.done
}

// RemoveContainer ends a container at once and forgets it with what it has written.
func (r *Runtime) RemoveContainer(_ context.Context, q *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	c, err := r.container(q.ContainerId)
	if err != nil {
		return &cri.RemoveContainerResponse{}, nil //nolint:nilerr // what is not there is removed
	}
	return &cri.RemoveContainerResponse{}, r.remove(c)
}

func (r *Runtime) remove(c *container) error {
	r.stop(c, 0)
	r.mu.Lock()
	delete(r.containers, c.id)
	r.mu.Unlock()
	return errors.Join(c.log.close(), os.RemoveAll(c.root.dir))
}

// ReopenContainerLog continues in a new file, after the kubelet has moved the old one.
func (r *Runtime) ReopenContainerLog(_ context.Context, q *cri.ReopenContainerLogRequest) (*cri.ReopenContainerLogResponse, error) {
	c, err := r.container(q.ContainerId)
	if err != nil {
		return nil, err
	}
	return &cri.ReopenContainerLogResponse{}, c.log.reopen()
}

func (r *Runtime) container(id string) (*container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		return c, nil
	}
	return nil, status.Errorf(codes.NotFound, "no container %s", id)
}

// of returns a pod's containers.
func (r *Runtime) of(s *sandbox) []*container {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*container
	for _, c := range r.containers {
		if c.sandbox == s {
			all = append(all, c)
		}
	}
	return all
}

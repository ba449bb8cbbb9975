//go:build linux

package cri

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListContainers implements the runtime service.
func (r *Runtime) ListContainers(_ context.Context, q *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &cri.ListContainersResponse{}
	f := q.GetFilter()
	for _, c := range r.containers {
		if f.GetId() != "" && f.Id != c.id || f.GetPodSandboxId() != "" && f.PodSandboxId != c.sandbox.id ||
			f.GetState() != nil && f.State.State != c.state || !selected(c.config.Labels, f.GetLabelSelector()) {
			continue
		}
		out.Containers = append(out.Containers, &cri.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.Metadata, Image: c.config.Image, ImageRef: c.image.id, ImageId: c.image.id,
			State: c.state, CreatedAt: c.created.UnixNano(), Labels: c.config.Labels, Annotations: c.config.Annotations,
		})
	}
	return out, nil
}

// ContainerStatus implements the runtime service.
func (r *Runtime) ContainerStatus(_ context.Context, q *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	c, err := r.container(q.ContainerId)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	st := &cri.ContainerStatus{
		Id: c.id, Metadata: c.config.Metadata, State: c.state, CreatedAt: c.created.UnixNano(),
		Image: c.config.Image, ImageRef: c.image.id, ImageId: c.image.id, Labels: c.config.Labels, Annotations: c.config.Annotations,
		Mounts: c.config.Mounts, LogPath: c.log.path, ExitCode: int32(c.code), Message: c.fault,
	}
	if !c.started.IsZero() {
		st.StartedAt = c.started.UnixNano()
	}
	if c.state == cri.ContainerState_CONTAINER_EXITED {
		st.FinishedAt = c.finished.UnixNano()
		if st.Reason = "Completed"; c.code != 0 {
			st.Reason = "Error"
		}
	}
	return &cri.ContainerStatusResponse{Status: st}, nil
}

// UpdateContainerResources implements the runtime service: there are no limits to change.
func (r *Runtime) UpdateContainerResources(context.Context, *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	return &cri.UpdateContainerResourcesResponse{}, nil
}

// ContainerStats implements the runtime service.
func (r *Runtime) ContainerStats(_ context.Context, q *cri.ContainerStatsRequest) (*cri.ContainerStatsResponse, error) {
	c, err := r.container(q.ContainerId)
	if err != nil {
		return nil, err
	}
	stats := r.stats(c)
	if stats == nil {
		return nil, status.Errorf(codes.NotFound, "container %s does not run", q.ContainerId)
	}
	return &cri.ContainerStatsResponse{Stats: stats}, nil
}

// ListContainerStats implements the runtime service.
func (r *Runtime) ListContainerStats(_ context.Context, q *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	r.mu.Lock()
	var all []*container
	for _, c := range r.containers {
		f := q.GetFilter()
		if (f.GetId() == "" || f.Id == c.id) && (f.GetPodSandboxId() == "" || f.PodSandboxId == c.sandbox.id) && selected(c.config.Labels, f.GetLabelSelector()) {
			all = append(all, c)
		}
	}
	r.mu.Unlock()
	out := &cri.ListContainerStatsResponse{}
	for _, c := range all {
		if s := r.stats(c); s != nil {
			out.Stats = append(out.Stats, s)
		}
	}
	return out, nil
}

// stats returns what a container uses, or nil if it does not run.
func (r *Runtime) stats(c *container) *cri.ContainerStats {
	r.mu.Lock()
	running := c.state == cri.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()
	if !running {
		return nil
	}
	now := time.Now().UnixNano()
	memory := &cri.UInt64Value{Value: residentBytes(c.cmd.Process.Pid)}
	return &cri.ContainerStats{
		Attributes: &cri.ContainerAttributes{Id: c.id, Metadata: c.config.Metadata, Labels: c.config.Labels, Annotations: c.config.Annotations},
		Memory:     &cri.MemoryUsage{Timestamp: now, WorkingSetBytes: memory, RssBytes: memory, UsageBytes: memory},
	}
}

// residentBytes returns a process's resident memory, or 0 if it has ended.
func residentBytes(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var kib uint64
	_, _ = fmt.Sscan(after, &kib) // 0 without one
	return kib << 10
}

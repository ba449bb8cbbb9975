//go:build linux

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is a pod: its namespaces, name and address. The runtime's mutex guards ready.
type sandbox struct {
	id      string
	config  *cri.PodSandboxConfig
	created time.Time
	ns      namespaces
	address netip.Addr // not valid on the host's network
	card    string
	ready   bool
}

// hostname is what the pod's processes see; a pod on the host's network has none of its own.
func (s *sandbox) hostname() string { return cmp.Or(s.config.Hostname, s.config.Metadata.Name) }

func (s *sandbox) state() cri.PodSandboxState {
	if s.ready {
		return cri.PodSandboxState_SANDBOX_READY
	}
	return cri.PodSandboxState_SANDBOX_NOTREADY
}

// onHost reports whether the pod uses the host's network.
func onHost(c *cri.PodSandboxConfig) bool {
	return c.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == cri.NamespaceMode_NODE
}

// RunPodSandbox makes a pod's namespaces and network.
func (r *Runtime) RunPodSandbox(_ context.Context, q *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	s := &sandbox{id: newID(), config: q.Config, created: time.Now(), ready: true}
	host := onHost(q.Config)
	var err error
	if s.ns, err = newNamespaces(s.hostname(), host); err != nil {
		return nil, err
	}
	if !host {
		if s.address, err = r.network.take(); err != nil {
			return nil, errors.Join(err, s.ns.close())
		}
		r.mu.Lock()
		r.cards++
		s.card = fmt.Sprintf("%s-%d", r.config.Node, r.cards)
		r.mu.Unlock()
		if err := r.network.link(s.ns, s.card, s.address); err != nil {
			r.network.release(s.address)
			return nil, errors.Join(err, r.network.unlink(s.card), s.ns.close())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sandboxes[s.id] = s
	return &cri.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

// StopPodSandbox ends a pod's containers and takes its network away. It may be repeated.
func (r *Runtime) StopPodSandbox(_ context.Context, q *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	r.mu.Lock()
	s := r.sandboxes[q.PodSandboxId]
	stopped := s == nil || !s.ready
	if !stopped {
		s.ready = false
	}
	r.mu.Unlock()
	if stopped {
		return &cri.StopPodSandboxResponse{}, nil
	}
	for _, c := range r.of(s) {
		r.stop(c, 0)
	}
	if s.card != "" {
		if err := r.network.unlink(s.card); err != nil {
			return nil, err
		}
		r.network.release(s.address)
	}
	return &cri.StopPodSandboxResponse{}, s.ns.close()
}

// RemovePodSandbox forgets a pod and its containers.
func (r *Runtime) RemovePodSandbox(ctx context.Context, q *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	if _, err := r.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: q.PodSandboxId}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	s := r.sandboxes[q.PodSandboxId]
	delete(r.sandboxes, q.PodSandboxId)
	r.mu.Unlock()
	var errs []error
	for _, c := range r.of(s) {
		errs = append(errs, r.remove(c))
	}
	return &cri.RemovePodSandboxResponse{}, errors.Join(errs...)
}

// PodSandboxStatus implements the runtime service.
func (r *Runtime) PodSandboxStatus(_ context.Context, q *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[q.PodSandboxId]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "no pod %s", q.PodSandboxId)
	}
	st := &cri.PodSandboxStatus{
		Id: s.id, Metadata: s.config.Metadata, State: s.state(), CreatedAt: s.created.UnixNano(),
		Labels: s.config.Labels, Annotations: s.config.Annotations, Network: &cri.PodSandboxNetworkStatus{},
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	}
	if s.address.IsValid() {
		st.Network.Ip = s.address.String()
	}
	return &cri.PodSandboxStatusResponse{Status: st}, nil
}

// ListPodSandbox implements the runtime service.
func (r *Runtime) ListPodSandbox(_ context.Context, q *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &cri.ListPodSandboxResponse{}
	f := q.GetFilter()
	for _, s := range r.sandboxes {
		if f.GetId() != "" && f.Id != s.id || f.GetState() != nil && f.State.State != s.state() || !selected(s.config.Labels, f.GetLabelSelector()) {
			continue
		}
		out.Items = append(out.Items, &cri.PodSandbox{
			Id: s.id, Metadata: s.config.Metadata, State: s.state(), CreatedAt: s.created.UnixNano(),
			Labels: s.config.Labels, Annotations: s.config.Annotations,
		})
	}
	return out, nil
}

// PortForward returns where the kubelet asks for it.
func (r *Runtime) PortForward(_ context.Context, q *cri.PortForwardRequest) (*cri.PortForwardResponse, error) {
	return r.streams.GetPortForward(q)
}

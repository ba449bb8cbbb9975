//go:build linux

package cri

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
)

// Config is what a node's runtime needs.
type Config struct {
	// Dir is a directory of its own, on a file system that an overlay can be on.
	Dir string
	// Images are what it can run; nodes may share them.
	Images *Images
	// Host is the node's address, on any interface of the namespace that the runtime is started in.
	Host netip.Addr
	// Pods are the addresses of the node's pods, which no other node has.
	Pods netip.Prefix
	// Node is a name of at most 6 characters that no other node on this machine has.
	Node string
}

// Runtime serves the kubelet of one node. Safe for concurrent use.
type Runtime struct {
	cri.UnimplementedRuntimeServiceServer
	config  Config
	network *network
	streams streaming.Server

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	cards      int // counts interfaces
}

// New returns a runtime without pods.
func New(c Config) (*Runtime, error) {
	if len(c.Node) > 6 {
		return nil, fmt.Errorf("node %q: its name is part of interfaces' names: take one of at most 6 characters", c.Node)
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	return &Runtime{
		config: c, network: newNetwork(c.Host, c.Pods),
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{},
	}, nil
}

// Serve answers at a Unix socket until the context ends. Then it ends all containers and removes all pods.
func (r *Runtime) Serve(ctx context.Context, socket string) error {
	streams, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(r.config.Host.String(), "0"))
	if err != nil {
		return fmt.Errorf("listen for exec and port-forward: %w", err)
	}
	config := streaming.DefaultConfig
	config.Addr = streams.Addr().String()
	if r.streams, err = streaming.NewServer(config, streamer{r}); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for the kubelet: %w", err), streams.Close())
	}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, r)
	cri.RegisterImageServiceServer(server, imageService{images: r.config.Images})
	web := &http.Server{Handler: r.streams, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan error, 2)
	go func() { done <- web.Serve(streams) }()
	go func() { done <- server.Serve(l) }()
	select {
	case err = <-done:
	case <-ctx.Done():
	}
	server.Stop()
	return errors.Join(err, web.Close(), r.clear())
}

// clear ends and removes what is left.
func (r *Runtime) clear() error {
	r.mu.Lock()
	all := make([]string, 0, len(r.sandboxes))
	for id := range r.sandboxes {
		all = append(all, id)
	}
	r.mu.Unlock()
	var errs []error
	for _, id := range all {
		_, err := r.RemovePodSandbox(context.Background(), &cri.RemovePodSandboxRequest{PodSandboxId: id})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// newID returns what nothing else is called.
func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// selected reports whether labels have all that a filter asks for.
func selected(labels, filter map[string]string) bool {
	for k, v := range filter {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// Version implements the runtime service.
func (r *Runtime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "processes", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

// Status implements the runtime service: a runtime that answers is ready.
func (r *Runtime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true},
	}}}, nil
}

// RuntimeConfig implements the runtime service.
func (r *Runtime) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}

// UpdateRuntimeConfig implements the runtime service: addresses of pods are the configuration's.
func (r *Runtime) UpdateRuntimeConfig(context.Context, *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

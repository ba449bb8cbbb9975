//go:build linux

package kube

import (
	"context"
	_ "embed" // the objects that a cluster has from the start
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/quorate/quorate/deploy/k8s/e2e/cri"
	"github.com/quorate/quorate/deploy/k8s/e2e/storage"
)

// Addresses of a cluster, which exist only in the namespaces of its test. Those of the control plane and of the DNS
// service are in cluster.yaml too.
const (
	podRange   = "10.79.0.0/16"
	dnsService = "10.96.0.10"
)

var controlPlaneAddress = netip.MustParseAddr("10.78.0.1") //nolint:gochecknoglobals // a constant

// maxNodes is how many nodes have an address.
const maxNodes = 100

//go:embed cluster.yaml
var objects string

// Config is how to start a cluster.
type Config struct {
	// Bin is the directory of the programs.
	Bin string
	// Dir is a directory of its own, on a file system that overlays can be on.
	Dir string
	// Zones are the zones of the nodes node-0, node-1 and so on. Empty: zone-0, zone-1 and zone-2.
	Zones []string
	// Images are what pods can run, by their names in manifests.
	Images map[string]cri.Image
}

// Cluster is a control plane with nodes, services, names and volumes. Methods may be called concurrently, except
// Stop.
type Cluster struct {
	*ControlPlane
	// Images may get more images at any time.
	Images *cri.Images

	nodes   []*node
	cancel  context.CancelFunc // of what runs in this process
	working sync.WaitGroup
}

// Start starts a cluster in the namespaces of the process and returns when its nodes are ready. Stop has to be
// called unless it returns an error.
func Start(ctx context.Context, c Config) (_ *Cluster, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if len(c.Zones) == 0 {
		c.Zones = []string{"zone-0", "zone-1", "zone-2"}
	}
	if len(c.Zones) > maxNodes {
		return nil, fmt.Errorf("%d nodes: at most %d have addresses", len(c.Zones), maxNodes)
	}
	if err := machine(ctx, len(c.Zones)); err != nil {
		return nil, err
	}
	images := filepath.Join(c.Dir, "images")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return nil, err
	}
	k := &Cluster{Images: cri.NewImages(images)}
	for name, im := range c.Images {
		if err := k.Images.Put(name, im); err != nil {
			return nil, err
		}
	}
	if k.ControlPlane, err = StartControlPlane(ctx, ControlPlaneConfig{Bin: c.Bin, Dir: c.Dir, Address: controlPlaneAddress}); err != nil {
		return nil, err
	}
	var life context.Context
	life, k.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			k.Stop()
		}
	}()
	if err := k.apply(ctx, objects); err != nil {
		return nil, err
	}
	if err := errors.Join(k.startScheduler(), k.startVolumes(life), k.startProxy(), k.startDNS()); err != nil {
		return nil, err
	}
	for i, zone := range c.Zones {
		if err := k.startNode(life, i, zone); err != nil {
			return nil, err
		}
	}
	return k, k.ready(ctx)
}

// Stop ends the cluster and all pods, and unmounts what kubelets have mounted.
func (k *Cluster) Stop() {
	for _, n := range k.nodes {
		n.kubelet.stop()
	}
	k.cancel()
	k.working.Wait()
	k.ControlPlane.Stop()
	unmountBelow(k.config.Dir)
}

// Client returns an administrator's client.
func (k *Cluster) Client() (*kubernetes.Clientset, error) {
	config, err := k.Config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// apply applies a manifest.
func (k *Cluster) apply(ctx context.Context, manifest string) error {
	path := filepath.Join(k.config.Dir, "cluster.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		return err
	}
	_, err := k.Kubectl(ctx, "apply", "-f", path)
	return err
}

// ready waits for all nodes.
func (k *Cluster) ready(ctx context.Context) error {
	for _, n := range k.nodes {
		err := await(ctx, n.name, n.kubelet, func(ctx context.Context) error {
			_, err := k.Kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=10s", "node/"+n.name)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// work runs a part of the cluster in this process until Stop.
func (k *Cluster) work(f func()) {
	k.working.Go(f)
}

func (k *Cluster) startVolumes(life context.Context) error {
	client, err := k.Client()
	if err != nil {
		return err
	}
	volumes := filepath.Join(k.config.Dir, "volumes")
	if err := os.MkdirAll(volumes, 0o755); err != nil {
		return err
	}
	k.work(func() { storage.Run(life, client, volumes) })
	return nil
}

// nodeAddress returns the address of a node by its number.
func nodeAddress(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 78, 1, byte(i + 1)}) }

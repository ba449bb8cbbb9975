//go:build linux

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/deploy/k8s/e2e/cri"
)

// node is a kubelet and its runtime.
type node struct {
	name    string
	kubelet *process
}

// podAddresses returns the addresses of a node's pods.
func podAddresses(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 79, byte(i), 0}), 24)
}

// startNode starts a runtime and the kubelet that it serves.
func (k *Cluster) startNode(life context.Context, i int, zone string) error {
	name, at := fmt.Sprintf("node-%d", i), nodeAddress(i)
	dir := filepath.Join(k.config.Dir, name)
	runtime, err := cri.New(cri.Config{
		Dir: filepath.Join(dir, "containers"), Images: k.Images, Host: at, Pods: podAddresses(i), Node: fmt.Sprintf("n%d", i),
	})
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "cri.sock")
	failed := make(chan error, 1)
	k.work(func() { failed <- runtime.Serve(life, socket) })
	listens := func(context.Context) error {
		_, err := os.Stat(socket)
		return err
	}
	if err := await(life, "the runtime of "+name, nil, func(ctx context.Context) error {
		select {
		case err := <-failed:
			return fmt.Errorf("the runtime of %s: %w", name, err)
		default:
			return listens(ctx)
		}
	}); err != nil {
		return err
	}
	kubeconfig, err := k.certificates.kubeconfig(name, k.server, "system:node:"+name, "system:nodes")
	if err != nil {
		return err
	}
	config, err := k.kubeletConfig(dir, name, socket, at)
	if err != nil {
		return err
	}
	kubelet, err := k.startKubelet(dir, "--config="+config, "--kubeconfig="+kubeconfig, "--hostname-override="+name,
		"--node-ip="+at.String(), "--cert-dir="+filepath.Join(dir, "pki"), "--node-labels=topology.kubernetes.io/zone="+zone)
	if err != nil {
		return err
	}
	k.nodes = append(k.nodes, &node{name: name, kubelet: kubelet})
	return nil
}

// alone runs a program that sees an empty kubeletDir of its own.
const alone = `mount -t tmpfs -o mode=755 tmpfs ` + kubeletDir + ` && exec "$0" "$@"`

// startKubelet starts a kubelet in a directory of its own. In kubeletDir all kubelets listen at one path for plugins of
// devices, whatever their root directories are: each removes the socket that it finds, and of two that start at the same
// time the second one fails, because the first listens already. So each has a mount namespace in which kubeletDir is
// another one. What it mounts for pods, the runtime has to see: its root directory is shared with the test's namespace.
func (k *Cluster) startKubelet(dir string, args ...string) (*process, error) {
	root := filepath.Join(dir, "kubelet")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	err := errors.Join(unix.Mount(root, root, "", unix.MS_BIND, ""), unix.Mount("", root, "", unix.MS_SHARED, ""))
	if err != nil {
		return nil, fmt.Errorf("share %s: %w", root, err)
	}
	args = append([]string{"-c", alone, filepath.Join(k.config.Bin, "kubelet"), "--root-dir=" + root}, args...)
	cmd := exec.CommandContext(context.Background(), "sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	return startCommand(dir, "kubelet", cmd)
}

// kubeletConfig writes a kubelet's configuration and returns its path. Limits of resources are not enforced, which
// would take control groups.
func (k *Cluster) kubeletConfig(dir, name, socket string, at netip.Addr) (string, error) {
	err := k.certificates.issueTo(name, name, nil, []string{name, at.String()})
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": at.String(), "healthzBindAddress": at.String(),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": k.certificates.file("ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"tlsCertFile":   k.certificates.file(name + ".crt"), "tlsPrivateKeyFile": k.certificates.file(name + ".key"),
		"clusterDNS": []string{dnsService}, "clusterDomain": clusterDomain, "resolvConf": "",
		"containerRuntimeEndpoint": "unix://" + socket,
		"cgroupsPerQOS":            false, "enforceNodeAllocatable": []string{}, "failCgroupV1": false, "failSwapOn": false, "oomScoreAdj": 0,
		"makeIPTablesUtilChains": false, "localStorageCapacityIsolation": false,
		"evictionHard":                map[string]string{"memory.available": "1%", "nodefs.available": "1%"},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"podLogsDir": filepath.Join(dir, "logs"), "volumePluginDir": filepath.Join(dir, "plugins"),
	})
	path := filepath.Join(dir, "kubelet.yaml")
	return path, errors.Join(err, os.WriteFile(path, text, 0o600))
}

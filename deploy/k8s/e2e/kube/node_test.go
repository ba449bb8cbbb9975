//go:build linux

package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pluginSocket is where every kubelet listens for plugins of devices.
const pluginSocket = kubeletDir + "/device-plugins/kubelet.sock"

// kubelet does what kubelets do at the same time: it listens at the path that all of them have in common, and mounts a
// volume below its root directory. It runs until SIGTERM.
func kubelet() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	volume := filepath.Join(strings.TrimPrefix(os.Args[1], "--root-dir="), "volume")
	err := errors.Join(os.MkdirAll(filepath.Dir(pluginSocket), 0o755), os.Mkdir(volume, 0o755), syscall.Mount("tmpfs", volume, "tmpfs", 0, ""))
	var l net.Listener
	if err == nil {
		var lc net.ListenConfig
		l, err = lc.Listen(context.Background(), "unix", pluginSocket)
	}
	if err == nil {
		defer l.Close() //nolint:errcheck // the process ends
		err = os.WriteFile(filepath.Join(volume, "mounted"), nil, 0o600)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-stop
	return 0
}

// Kubelets that start at the same time do not meet at the paths that they have in common; the test's namespace has what
// they mount for pods, and can unmount it when they have stopped.
func TestKubelets(t *testing.T) { Inside(t, kubelets) }

func kubelets(t *testing.T) {
	if err := directories(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "kubelet")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(programEnv, "kubelet")
	k := &Cluster{ControlPlane: &ControlPlane{config: ControlPlaneConfig{Bin: bin, Dir: dir}}}
	for i := range 3 {
		p, err := k.startKubelet(filepath.Join(dir, fmt.Sprintf("node-%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.stop)
		k.nodes = append(k.nodes, &node{kubelet: p})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i, n := range k.nodes { // a mount that the others do not see would leave the file out of sight
		mounted := filepath.Join(dir, fmt.Sprintf("node-%d", i), "kubelet", "volume", "mounted")
		if err := await(ctx, mounted, n.kubelet, func(context.Context) error { _, err := os.Stat(mounted); return err }); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range k.nodes {
		n.kubelet.stop()
		if state := n.kubelet.cmd.ProcessState; state.ExitCode() != 0 {
			t.Errorf("a kubelet that was stopped has ended: %v", state)
		}
	}
	unmountBelow(dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("what kubelets have mounted is still there: %v", err)
	}
}

//go:build linux

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine makes of the test's namespaces what nodes expect of a machine.
func machine(ctx context.Context, nodes int) error {
	if os.Getenv(insideEnv) == "" {
		return errors.New("a cluster needs namespaces of its own: call Start in a test that runs Inside")
	}
	if err := directories(); err != nil {
		return err
	}
	return errors.Join(hostNetwork(ctx, nodes), kernelSettings())
}

// kubeletDir is where kubelets have what no setting leads elsewhere.
const kubeletDir = "/var/lib/kubelet"

// directories hides those of the machine that kubelets write to whatever their configuration says.
func directories() error {
	for _, dir := range []string{"/var/lib", "/var/log"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	return os.Mkdir(kubeletDir, 0o755)
}

// hostNetwork sets up the addresses of the control plane and of the nodes, and routes to services, which kube-proxy
// leads to pods.
func hostNetwork(ctx context.Context, nodes int) error {
	commands := [][]string{{"link", "set", "lo", "up"}}
	addresses := []netip.Addr{controlPlaneAddress}
	for i := range nodes {
		addresses = append(addresses, nodeAddress(i))
	}
	for _, a := range addresses {
		commands = append(commands, []string{"addr", "add", a.String() + "/32", "dev", "lo"})
	}
	commands = append(commands, []string{"route", "add", serviceRange, "dev", "lo", "src", controlPlaneAddress.String()})
	for _, c := range commands {
		if _, err := run(ctx, "ip", c...); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// kernelSettings shows kubelets the kernel's settings as they want them. They would change them, and namespaces do not
// keep that from the machine.
func kernelSettings() error {
	const dir = "/var/lib/kernel-settings"
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, value := range map[string]int{
		"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
		"kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000,
	} {
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(strconv.Itoa(value)+"\n"), 0o444); err != nil {
			return err
		}
		if err := unix.Mount(file, "/proc/sys/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide the kernel's %s: %w", name, err)
		}
	}
	return nil
}

// unmountBelow unmounts what is mounted below a directory. What cannot be unmounted ends with the namespace.
func unmountBelow(dir string) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	slices.Reverse(lines) // the last one first
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			_ = unix.Unmount(fields[1], unix.MNT_DETACH)
		}
	}
}

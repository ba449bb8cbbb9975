//go:build linux

package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// drainTime is how long a process that has ended may leave its output open to others.
const drainTime = time.Second

// program is what runs in a container, and as whom.
type program struct {
	args   []string
	env    []string
	dir    string
	user   uint32
	group  uint32
	groups []uint32
}

// programOf merges an image with what the manifest says.
func programOf(im *stored, config *cri.ContainerConfig, hostname string) (program, error) {
	entrypoint, cmd := im.Entrypoint, im.Cmd
	if len(config.Command) > 0 {
		entrypoint, cmd = config.Command, nil
	}
	if len(config.Args) > 0 {
		cmd = config.Args
	}
	p := program{args: slices.Concat(entrypoint, cmd), dir: config.WorkingDir, user: uint32(im.User), group: uint32(im.User)}
	if len(p.args) == 0 {
		return p, fmt.Errorf("neither image %s nor the container says what to run", im.name)
	}
	if p.dir == "" {
		p.dir = "/"
	}
	security := config.GetLinux().GetSecurityContext()
	if u := security.GetRunAsUser(); u != nil {
		p.user = uint32(u.Value)
	}
	if g := security.GetRunAsGroup(); g != nil {
		p.group = uint32(g.Value)
	}
	for _, g := range security.GetSupplementalGroups() {
		p.groups = append(p.groups, uint32(g))
	}
	p.env = slices.Concat([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + hostname}, im.Env)
	for _, e := range config.Envs {
		p.env = append(p.env, e.Key+"="+string(e.Value))
	}
	return p, nil
}

// command prepares a process whose root is a directory of the namespace that it is started in.
func (p program) command(ctx context.Context, root string, args []string) (*exec.Cmd, error) {
	path, err := find(root, args[0])
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, path, args[1:]...)
	c.Args[0], c.Env, c.Dir, c.WaitDelay = args[0], p.env, p.dir, drainTime
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	c.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Setsid: true,
		Credential: &syscall.Credential{Uid: p.user, Gid: p.group, Groups: p.groups},
	}
	return c, nil
}

// find returns the path of a program within a root.
func find(root, name string) (string, error) {
	dirs := []string{""}
	if !strings.Contains(name, "/") {
		dirs = []string{"/usr/local/bin/", "/usr/bin/", "/bin/", "/"}
	}
	for _, d := range dirs {
		if _, err := os.Stat(root + d + name); err == nil {
			return d + name, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in the image", name)
}

// start runs the container's program in fresh namespaces, on a root that it mounts.
func start(ctx context.Context, ns namespaces, r root, p program, stdout, stderr io.Writer) (c *exec.Cmd, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		// A proc mount needs the thread's own, so it comes before the pod's network.
		if err := r.mount(); err != nil {
			return err
		}
		if err := ns.enter(); err != nil {
			return err
		}
		if c, err = p.command(ctx, r.path(), p.args); err != nil {
			return err
		}
		c.Stdout, c.Stderr = stdout, stderr
		return c.Start()
	})
	return c, err
}

// execute runs another program in the namespaces of a container's process and returns when it has ended;
// the code is that of its end.
func execute(ctx context.Context, ns namespaces, pid int, r root, p program, args []string, in io.Reader, stdout, stderr io.Writer) (code int, err error) {
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return 0, fmt.Errorf("enter the container: %w", err)
	}
	defer mounts.Close() //nolint:errcheck // only read
	var c *exec.Cmd
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("enter the container's mounts: %w", err)
		}
		if err := ns.enter(); err != nil {
			return err
		}
		var err error
		if c, err = p.command(ctx, r.path(), args); err != nil {
			return err
		}
		c.Stdin, c.Stdout, c.Stderr = in, stdout, stderr
		return c.Start()
	})
	if err != nil {
		return 0, err
	}
	return codeOf(c.Wait())
}

// codeOf distinguishes a process that ended with a code, which is no error, from one that could not be waited for.
func codeOf(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return 0, nil
	case errors.As(err, &exit):
		if status, is := exit.Sys().(syscall.WaitStatus); is && status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

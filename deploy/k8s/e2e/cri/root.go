//go:build linux

package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// root is a container's root directory: the image's files, over them what the container writes.
type root struct {
	lower, dir string // of the image, and the container's own
	files      map[string]string
	mounts     []*cri.Mount
	readonly   bool
}

// path is where the root is mounted, in the container's mount namespace alone.
func (r root) path() string { return filepath.Join(r.dir, "root") }

// mount builds the root in the mount namespace of the calling thread, which is the container's.
func (r root) mount() error {
	upper, work := filepath.Join(r.dir, "upper"), filepath.Join(r.dir, "work")
	for _, d := range []string{r.path(), upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", r.lower, upper, work)
	if err := unix.Mount("overlay", r.path(), "overlay", 0, options); err != nil {
		return fmt.Errorf("mount the image at %s: %w", r.path(), err)
	}
	if err := r.system(); err != nil {
		return err
	}
	for to, content := range r.files {
		at, err := r.target(to, false)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, m := range r.mounts {
		if err := r.bind(m.HostPath, m.ContainerPath, m.Readonly); err != nil {
			return err
		}
	}
	if r.readonly {
		if err := unix.Mount("", r.path(), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("make the root read-only: %w", err)
		}
	}
	return nil
}

// system mounts what every container has.
func (r root) system() error {
	for _, m := range []struct{ to, kind, options string }{
		{"/proc", "proc", ""}, {"/dev", "tmpfs", "mode=755,size=64k"}, {"/dev/shm", "tmpfs", "mode=1777,size=64m"},
	} {
		at, err := r.target(m.to, true)
		if err == nil {
			err = unix.Mount(m.kind, at, m.kind, unix.MS_NOSUID, m.options)
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.to, err)
		}
	}
	tmp, err := r.target("/tmp", true)
	if err != nil {
		return err
	}
	errs := []error{os.Chmod(tmp, os.ModeSticky|0o777)}
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		errs = append(errs, r.bind(device, device, false))
	}
	return errors.Join(errs...)
}

// bind mounts a file or directory of the host.
func (r root) bind(from, to string, readonly bool) error {
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	at, err := r.target(to, info.IsDir())
	if err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	if err := unix.Mount(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	if readonly {
		if err := unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("mount %s at %s read-only: %w", from, to, err)
		}
	}
	return nil
}

// target makes a place to mount at, inside of the root even if links of the image lead out of it.
func (r root) target(to string, dir bool) (string, error) {
	at, err := securejoin.SecureJoin(r.path(), to)
	if err != nil {
		return "", err
	}
	if dir {
		return at, os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return "", err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDONLY, 0o644)
	if errors.Is(err, unix.ENXIO) { // a device
		return at, nil
	}
	if err != nil {
		return "", err
	}
	return at, f.Close()
}

// resolv is /etc/resolv.conf as the kubelet wants it.
func resolv(dns *cri.DNSConfig) string {
	var b strings.Builder
	if len(dns.GetSearches()) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(dns.GetSearches(), " "))
	}
	for _, s := range dns.GetServers() {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(dns.GetOptions()) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(dns.GetOptions(), " "))
	}
	return b.String()
}

package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Requests of linux/fs.h. From fsShutdown on, whatever a file system is asked for answers EIO,
// and with noLogFlush what was not synced is lost.
const (
	fiFreeze   = 0xC0045877
	fiThaw     = 0xC0045878
	fsShutdown = 0x8004587d
	noLogFlush = 2
)

// disk is a node's file system.
type disk struct {
	image, dir string
	failed     bool   // it is shut down: Replug mounts it anew
	full       func() // ends a Fill; nil: not full
}

// ballast is the file that fills a disk, beside the node's own.
const ballast = ".ballast"

// makeDisk mounts an ext4 of its own where a node's data will be.
func makeDisk(ctx context.Context, image, dir string, size int64) (*disk, error) {
	d := &disk{image: image, dir: dir}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, size)); err != nil {
		return nil, fmt.Errorf("netns: %w", err)
	}
	// Without -m 0 root keeps a reserve, and could never fill it.
	return d, errors.Join(command(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", image), d.mount(ctx))
}

func (d *disk) mount(ctx context.Context) error {
	return command(ctx, "mount", "-o", "loop", d.image, d.dir)
}

// ioctl asks the file system for something.
func (d *disk) ioctl(request, argument uintptr) error {
	f, err := os.Open(d.dir)
	if err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, argument); e != 0 {
		return fmt.Errorf("netns: ioctl %#x of %s: %w", request, d.dir, e)
	}
	return nil
}

// Fill implements target.Disks: what the node frees meanwhile is taken too.
func (c *Cluster) Fill(_ context.Context, node string) error {
	d, err := c.disk(node)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(d.dir, ballast), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	if err := d.grow(f); err != nil {
		return errors.Join(err, f.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stop, stopped := make(chan struct{}), make(chan struct{})
	d.full = func() { close(stop); <-stopped }
	go func() {
		defer close(stopped)
		defer f.Close() //nolint:errcheck // it goes anyway
		for {
			select {
			case <-stop:
				return
			case <-time.After(pollEvery):
				_ = d.grow(f) // the disk was full before
			}
		}
	}()
	return nil
}

// grow takes all space that is free.
func (d *disk) grow(f *os.File) error {
	for size := int64(64 << 20); size >= 4096; {
		info, err := f.Stat()
		if err != nil {
			return fmt.Errorf("netns: %w", err)
		}
		switch err := syscall.Fallocate(int(f.Fd()), 0, info.Size(), size); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil && !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("netns: fill %s: %w", d.dir, err)
		}
	}
	return nil
}

// Free implements target.Disks.
func (c *Cluster) Free(_ context.Context, node string) error {
	d, err := c.disk(node)
	if err != nil {
		return err
	}
	c.mu.Lock()
	full := d.full
	d.full = nil
	c.mu.Unlock()
	if full == nil {
		return nil
	}
	full()
	if err := os.Remove(filepath.Join(d.dir, ballast)); err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	return nil
}

// Freeze implements target.Disks.
func (c *Cluster) Freeze(_ context.Context, node string) error {
	d, err := c.disk(node)
	if err != nil {
		return err
	}
	return d.ioctl(fiFreeze, 0)
}

// Thaw implements target.Disks.
func (c *Cluster) Thaw(_ context.Context, node string) error {
	d, err := c.disk(node)
	if err != nil {
		return err
	}
	return d.ioctl(fiThaw, 0)
}

// Fail implements target.Disks.
func (c *Cluster) Fail(_ context.Context, node string) error {
	d, err := c.disk(node)
	if err != nil {
		return err
	}
	return c.shutDown(d)
}

// shutDown lets the file system fail until it is mounted anew.
func (c *Cluster) shutDown(d *disk) error {
	how := uint32(noLogFlush)
	c.mu.Lock()
	defer c.mu.Unlock()
	err := d.ioctl(fsShutdown, uintptr(unsafe.Pointer(&how)))
	d.failed = d.failed || err == nil
	return err
}

// CutPower implements target.Disks: the disks stop first, so nothing is written after that a
// process did before it knew.
func (c *Cluster) CutPower(ctx context.Context, nodes ...string) error {
	var errs []error
	for _, n := range nodes {
		d, err := c.disk(n)
		if err == nil {
			err = c.shutDown(d)
		}
		errs = append(errs, err)
	}
	for _, n := range nodes {
		if c.Running(n) {
			if err := c.Kill(ctx, n); c.Running(n) { // else it ended by itself meanwhile
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Replug implements target.Disks. The node's process must have ended.
func (c *Cluster) Replug(ctx context.Context, node string) error {
	d, err := c.disk(node)
	if err != nil {
		return err
	}
	c.mu.Lock()
	failed := d.failed
	c.mu.Unlock()
	if !failed {
		return nil
	}
	if err := errors.Join(command(ctx, "umount", d.dir), d.mount(ctx)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d.failed = false
	return nil
}

// disk returns the disk of a node; if it does not exist, the caller gave a wrong name.
func (c *Cluster) disk(node string) (*disk, error) {
	d := c.disks[node]
	if d == nil {
		return nil, fmt.Errorf("netns: there is no node %q", node)
	}
	return d, nil
}

// release gives a disk back, whatever state it is in.
func (d *disk) release(ctx context.Context) {
	if d.full != nil {
		d.full()
	}
	_ = d.ioctl(fiThaw, 0) // it is not frozen, as a rule
	if command(ctx, "umount", d.dir) != nil {
		_ = command(ctx, "umount", "--lazy", d.dir) // its holders end with the namespaces
	}
}

// command runs a program to its end.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("netns: %s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

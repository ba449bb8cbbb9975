//go:build linux

package cri

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread of its own, which may enter namespaces: it ends with f, so that no
// other goroutine ever runs in them. What f starts stays in them.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread
		done <- f()
	}()
	return <-done
}

// namespaces are open files of namespaces, which live as long as the files are open.
type namespaces struct {
	net *os.File // nil: the host's
	uts *os.File
}

// newNamespaces makes those of a pod, with its name and a loopback interface that is down.
func newNamespaces(hostname string, hostNetwork bool) (ns namespaces, err error) {
	err = onThread(func() error {
		flags := unix.CLONE_NEWUTS
		if !hostNetwork {
			flags |= unix.CLONE_NEWNET
		}
		if err := unix.Unshare(flags); err != nil {
			return fmt.Errorf("make namespaces: %w", err)
		}
		if err := unix.Sethostname([]byte(hostname)); err != nil {
			return fmt.Errorf("name the pod %q: %w", hostname, err)
		}
		var err error
		if ns.uts, err = os.Open("/proc/thread-self/ns/uts"); err != nil {
			return err
		}
		if !hostNetwork {
			ns.net, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	})
	return ns, err
}

// enter takes the calling thread into the namespaces.
func (ns namespaces) enter() error {
	if ns.net != nil {
		if err := unix.Setns(int(ns.net.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the pod's network: %w", err)
		}
	}
	if err := unix.Setns(int(ns.uts.Fd()), unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("enter the pod's names: %w", err)
	}
	return nil
}

// close lets the kernel remove them once no process is left in them.
func (ns namespaces) close() error {
	var errs []error
	for _, f := range []*os.File{ns.net, ns.uts} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

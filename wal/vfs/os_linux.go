package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// datasync flushes the bytes and what is needed to read them, but not the times of the
// file: on a recycled file that saves the write of the inode.
func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		// Interrupted before it began; any other error is final.
		if !errors.Is(err, syscall.EINTR) {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}

// partsAtATime is how many parts the system takes at a time.
const partsAtATime = 1024

// WritePartsAt implements File without a copy of the parts in one piece.
func (f osFile) WritePartsAt(parts [][]byte, off int64) error {
	for parts = behind(parts, 0); len(parts) > 0; {
		n, err := unix.Pwritev(int(f.Fd()), parts[:min(len(parts), partsAtATime)], off)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return &os.PathError{Op: "pwritev", Path: f.Name(), Err: err}
		case n == 0:
			return &os.PathError{Op: "pwritev", Path: f.Name(), Err: io.ErrShortWrite}
		default:
			off += int64(n)
			parts = behind(parts, n)
		}
	}
	return nil
}

// behind returns what is left of parts when so many bytes of them are written, none of it empty at its beginning.
func behind(parts [][]byte, written int) [][]byte {
	for len(parts) > 0 && written >= len(parts[0]) {
		written -= len(parts[0])
		parts = parts[1:]
	}
	if len(parts) > 0 {
		parts[0] = parts[0][written:]
	}
	return parts
}

func (f osFile) Allocate(size int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}

func (d osDir) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(d.in(name), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("vfs: %s is locked by another process: stop the other node that uses this directory: %w", f.Name(), err)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d osDir) Space() (free, total uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.path, &s); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: d.path, Err: err}
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}

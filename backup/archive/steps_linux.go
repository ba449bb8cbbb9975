package archive

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// beginWriting has the operating system begin to write a range to the disk.
func beginWriting(f *os.File, offset, bytes int64) error {
	return syncRange(f, offset, bytes, unix.SYNC_FILE_RANGE_WRITE)
}

// waitWritten waits until the disk has a range. It is not durable yet: what leads to it may be missing.
func waitWritten(f *os.File, offset, bytes int64) error {
	return syncRange(f, offset, bytes, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
}

// syncRange returns the errors of the disk: Sync does not report them a second time. File systems that do not know
// ranges are left to Sync.
func syncRange(f *os.File, offset, bytes int64, flags int) error {
	for {
		err := unix.SyncFileRange(int(f.Fd()), offset, bytes, flags)
		switch {
		case err == nil, errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ESPIPE), errors.Is(err, unix.EOPNOTSUPP):
			return nil
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "sync_file_range", Path: f.Name(), Err: err}
		}
	}
}

package runbooks

import (
	"fmt"
	"syscall"
	"testing"
)

// mount puts a small file system at the directory. The test is skipped where that is not allowed.
func mount(t *testing.T, at string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
		t.Skipf("this needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// freeOn returns the free bytes of the file system that dir is on.
func freeOn(dir string) (int64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(dir, &s)
	return int64(s.Bavail) * s.Bsize, err
}

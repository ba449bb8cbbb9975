//go:build unix

package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lockDir takes the directory for this process until the file is closed or the process
// ends. The file holds the process's number, which a second one reports.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, fmt.Errorf("cluster: locking data directory %q: %w: user %d must be able to write it", dir, err, os.Getuid())
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("cluster: locking data directory %q: %w", dir, err), f.Close())
		}
		by := "another process"
		if pid := strings.TrimSpace(string(holder)); pid != "" {
			by = "process " + pid
		}
		return nil, errors.Join(fmt.Errorf("cluster: data directory %q is in use by %s: "+
			"stop it, or give this node a directory of its own", dir, by), f.Close())
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err != nil && !errors.Is(err, syscall.ENOSPC) { // the number only serves to report who has it
			return nil, errors.Join(fmt.Errorf("cluster: writing into the lock of %q: %w", dir, err), f.Close())
		}
	}
	return f, nil
}

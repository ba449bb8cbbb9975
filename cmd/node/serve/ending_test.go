package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/loopback"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{errors.New("listen.client: address in use"), ExitError},
		{fmt.Errorf("a start: %w: %w", sealed.ErrDamaged, syscall.EIO), ExitDamaged},
		{fmt.Errorf("data_dir: %w", &os.PathError{Err: syscall.EROFS}), ExitNoData},
		{fmt.Errorf("data_dir: %w", &os.PathError{Err: syscall.EACCES}), ExitNoData},
		{fmt.Errorf("the log: %w", cluster.ErrDiskFailed), ExitDiskFailed},
		{errors.Join(fmt.Errorf("the log: %w", disk.ErrHangs), cluster.ErrDiskFailed), ExitDiskHangs},
	} {
		if got := ExitCode(c.err); got != c.code {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.code)
		}
	}
}

// small mounts a file system of a few pages, and returns a node's directory on it.
func small(t *testing.T, flags uintptr) string {
	t.Helper()
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", flags, "size=128k"); err != nil {
		t.Skipf("this needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(mount, "data")
}

func nodeIn(t *testing.T, dir string) *node {
	t.Helper()
	environ := []string{"QUORATE_NODE_ID=n1", "QUORATE_DATA_DIR=" + dir, "QUORATE_CLUSTER__EXPECT=1", "QUORATE_LISTEN__AMQP=off"}
	for _, name := range []string{"CLIENT", "PEER", "GOSSIP", "HTTP"} {
		address, err := loopback.Address()
		if err != nil {
			t.Fatal(err)
		}
		environ = append(environ, "QUORATE_LISTEN__"+name+"="+address)
	}
	cfg, err := config.Load("", environ, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newNode(cfg, "test", slog.New(slog.DiscardHandler))
}

// A node whose disk is full at its start says so, and starts when there is room.
func TestStartsWhenThereIsRoom(t *testing.T) {
	dir := small(t, 0)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(filepath.Dir(dir), "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk takes all: %v", err)
	}
	n := nodeIn(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.start(ctx, "test") }()
	for said := ""; !strings.Contains(said, "waits for room"); {
		w := httptest.NewRecorder()
		n.health.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/health/startup", nil))
		said = w.Body.String()
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := errors.Join(syscall.Mount("", filepath.Dir(dir), "", syscall.MS_REMOUNT, "size=256m"), os.Remove(filler)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := n.stop(false); err != nil {
		t.Error(err)
	}
}

// A directory that cannot be written is named, with an exit code of its own.
func TestReadOnlyDirectory(t *testing.T) {
	dir := small(t, syscall.MS_RDONLY)
	n := nodeIn(t, dir)
	err := n.start(t.Context(), "test")
	if err == nil || ExitCode(err) != ExitNoData || !strings.Contains(err.Error(), dir) {
		t.Errorf("exit code %d: %v", ExitCode(err), err)
	}
	if err := n.stop(false); err != nil {
		t.Error(err)
	}
}

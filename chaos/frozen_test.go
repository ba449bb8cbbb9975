//go:build linux

package chaos

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/node/serve"
	"github.com/quorate/quorate/internal/wait"
)

// Requests of linux/fs.h.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// freezable mounts a small ext4 file system on a directory, or skips the test.
func freezable(t *testing.T, dir string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 256<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", "-m", "0", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil { // constants
			t.Skipf("this needs ext4 on a loop device: %q: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// freeze lets every write to a file system hang until thaw, which may be called again.
func freeze(t *testing.T, dir string) (thaw func()) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), fiFreeze, 0); e != 0 {
		t.Skipf("%s cannot be frozen: %v", dir, e)
	}
	return func() {
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), fiThaw, 0) // again: it is not frozen
		_ = f.Close()
	}
}

// A leader whose disk hangs loses its queue to another member, and its process ends with a
// code of its own and says why. The kernel lets it go when the disk is back.
func TestFrozenDisk(t *testing.T) {
	binary := filepath.Join("..", "bin", "quorate")
	if _, err := os.Stat(binary); err != nil || testing.Short() {
		t.Skipf("starts processes of %s, which `make build` makes; without -short (%v)", binary, err)
	}
	c, err := NewCluster(ClusterConfig{Binary: binary, Dir: t.TempDir(), Settings: "timeouts:\n  disk_hang: 3s\n"})
	if err != nil {
		t.Fatal(err)
	}
	first := c.Nodes[0]
	data := filepath.Join(first.Dir, "data")
	freezable(t, data)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Cleanup(c.Kill)
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	at, err := client.New(client.Config{Addresses: []string{first.Client}, FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if _, err := at.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	others, err := client.New(client.Config{Addresses: c.Addresses(first), FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	publish := func(body string) {
		t.Helper()
		if _, err := others.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte(body)}); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	// The probes over HTTP report a node's start a moment before those over gRPC, by which
	// clients choose; this one waits for it.
	if _, err := others.ClusterStatus(ctx); err != nil {
		t.Fatal(err)
	}
	publish("before")
	if q, err := others.GetQueue(ctx, client.QueueRef{Name: "q"}); err != nil || q.Leader != first.ID {
		t.Fatalf("led by %q, %v", q.Leader, err)
	}

	thaw := freeze(t, data)
	defer thaw()
	began := time.Now()
	publish("while it hangs")
	t.Logf("confirmed %v after the disk froze", time.Since(began).Round(time.Millisecond))
	q, err := others.GetQueue(ctx, client.QueueRef{Name: "q"})
	if err != nil || q.Leader == first.ID {
		t.Errorf("led by %q, %v", q.Leader, err)
	}
	for said := ""; !strings.Contains(said, "the process ends because its disk hangs"); {
		if b, err := os.ReadFile(first.LogFile()); err == nil {
			said = string(b)
		}
		if wait.For(ctx, pollEvery) != nil {
			t.Fatalf("the node has not said that it ends: %s", first.tail())
		}
	}
	thaw()
	for {
		if _, running := first.Running(); !running {
			break
		}
		if wait.For(ctx, pollEvery) != nil {
			t.Fatal("the process has not ended")
		}
	}
	if code := first.state.ExitCode(); code != serve.ExitDiskHangs {
		t.Errorf("exit code %d", code)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if err := first.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	publish("after")
	if q, err = others.GetQueue(ctx, client.QueueRef{Name: "q"}); err != nil || q.Figures().MessagesReady != 3 {
		t.Errorf("%d messages, %v", q.Figures().MessagesReady, err)
	}
}

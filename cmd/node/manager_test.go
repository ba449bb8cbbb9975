package main

import (
	"context"
	"encoding/base64"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A node notifies the service manager that started it when it is ready, what it does, and that it stops.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	binary := build(t)
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() //nolint:errcheck // of the test
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := []string{"node", "--node_id=alone", "--data_dir=" + filepath.Join(dir, "data"), "--cluster.expect=1", "--listen.amqp=off", "--listen.amqps=off"}
	for _, listener := range []string{"client", "peer", "gossip", "http"} {
		args = append(args, "--listen."+listener+"="+freeAddress(t))
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(cmd.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(said.String())
		}
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline, _ := ctx.Deadline()
	if err := socket.SetReadDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	heard := func(want string) {
		t.Helper()
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				t.Fatalf("%q is not said: %v", want, err)
			}
			if strings.Contains(string(b[:n]), want) {
				return
			}
		}
	}
	heard("READY=1\nSTATUS=starting")
	heard("STATUS=serves clients")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	heard("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
}

// The unit for systemd calls commands that there are, with the settings of docs/systemd.md.
func TestUnit(t *testing.T) {
	t.Parallel()
	binary := build(t)
	dir := t.TempDir()
	page, err := os.ReadFile("../../docs/systemd.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```yaml\n")
	settings, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("docs/systemd.md has no settings")
	}
	key := filepath.Join(dir, "gossip.key")
	settings = strings.ReplaceAll(settings, "/etc/quorate/gossip.key", key)
	for name, text := range map[string]string{key: base64.StdEncoding.EncodeToString(make([]byte, 32)), filepath.Join(dir, "node.yaml"): settings} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unit, err := os.ReadFile("../../deploy/systemd/quorate.service")
	if err != nil {
		t.Fatal(err)
	}
	checks, runs := 0, 0
	for line := range strings.SplitSeq(string(unit), "\n") {
		_, command, is := strings.Cut(line, "=/usr/bin/quorate ")
		if !is {
			continue
		}
		args := strings.Fields(strings.ReplaceAll(command, "/etc/quorate", dir))
		if args[0] == "node" { // it would run: its settings are checked below
			runs++
			args = append([]string{"config", "effective"}, args[1:]...)
		} else {
			checks++
		}
		if out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput(); err != nil {
			t.Errorf("quorate %q: %v\n%s", args, err, out)
		}
	}
	if checks != 1 || runs != 1 {
		t.Errorf("the unit has %d checks of settings and runs %d nodes", checks, runs)
	}
}

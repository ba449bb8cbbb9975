package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/target/local"
)

// socketEnv makes this program one of kubectl, ssh, docker and systemctl, by the name that it is
// called by: it asks the test at the socket what to do.
const socketEnv = "QUORATE_TEST_SOCKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(socketEnv); socket != "" {
		if name := filepath.Base(os.Args[0]); slices.Contains(programNames(), name) {
			os.Exit(ask(socket, name))
		}
	}
	os.Exit(m.Run())
}

// hostEnv is the host that the test's ssh gets.
const hostEnv = "QUORATE_TEST_HOST"

func programNames() []string { return []string{"kubectl", "docker", "systemctl"} }

// asked is what a program was called with.
type asked struct {
	Name  string
	Args  []string
	Input string
	Host  string // that ssh was to reach
}

// answered is what a program says.
type answered struct {
	Out, Complaint string
	Code           int
}

// ask is such a program: it lasts until the test answers.
func ask(socket, name string) int {
	input, _ := io.ReadAll(os.Stdin)
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var a answered
	if err = json.NewEncoder(conn).Encode(asked{name, os.Args[1:], string(input), os.Getenv(hostEnv)}); err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.WriteString(os.Stdout, a.Out)
	fmt.Fprint(os.Stderr, a.Complaint)
	return a.Code
}

// world is a cluster of real processes that programs on PATH act on.
type world struct {
	*testing.T
	nodes *local.Cluster
	least time.Duration // that each fault lasts in runs; 0: as long as its kind needs

	mu    sync.Mutex
	calls []asked
}

// newWorld starts nodes, and puts the programs on PATH. answer is called for each call of one of them;
// gone is closed when the program was killed.
func newWorld(t *testing.T, answer func(w *world, a asked, gone <-chan struct{}) (string, error), ids ...string) *world {
	t.Helper()
	nodes, err := local.Open(chaos.ClusterConfig{Binary: nodeBinary(t), Dir: t.TempDir(), Name: "prod-test", Nodes: 3, IDs: ids}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nodes.Cluster.Kill()
		_ = nodes.Close(context.Background())
	})
	if err := nodes.Cluster.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, nodes: nodes}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range programNames() {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// ssh runs the line on this machine.
	const ssh = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\n" + hostEnv + "=$2 exec sh -c \"$3\"\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(ssh), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(socketEnv, listener.Addr().String())
	go w.serve(listener, answer)
	return w
}

// serve answers programs until the listener is closed.
func (w *world) serve(listener net.Listener, answer func(w *world, a asked, gone <-chan struct{}) (string, error)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close() //nolint:errcheck // it is over
			var a asked
			if json.NewDecoder(conn).Decode(&a) != nil {
				return
			}
			w.mu.Lock()
			w.calls = append(w.calls, a)
			w.mu.Unlock()
			gone := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				close(gone)
			}()
			out, err := answer(w, a, gone)
			reply := answered{Out: out}
			if err != nil {
				reply.Complaint, reply.Code = "error: "+err.Error()+"\n", 1
			}
			_ = json.NewEncoder(conn).Encode(reply)
		}()
	}
}

// called returns all calls of a program so far.
func (w *world) called(name string) (out []asked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.calls {
		if a.Name == name {
			out = append(out, a)
		}
	}
	return out
}

// node returns a node, or an error for the program to print.
func (w *world) node(id string) (*chaos.Node, error) {
	if n := w.nodes.Node(id); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%q not found", id)
}

// without returns the arguments except for flags with their values.
func without(args []string, flags ...string) (out []string) {
	for i := 0; i < len(args); i++ {
		if slices.Contains(flags, args[i]) {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// starts reports whether the arguments begin with these words.
func starts(args []string, words string) bool {
	return strings.HasPrefix(strings.Join(args, " ")+" ", words+" ")
}

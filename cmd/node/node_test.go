package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/gobuild"
	"github.com/quorate/quorate/internal/loopback"
)

// programs is a directory of this run of tests, which TestMain makes and removes.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "quorate-node-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// program is the node's, which the first test that needs it builds from this tree.
var program = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(programs, "node")
	return binary, gobuild.Program(context.Background(), "../..", "./cmd/node", binary)
})

// build returns the node's program.
func build(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes: not in short mode")
	}
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// fails runs the node and returns what it said when it ended with an error.
func fails(t *testing.T, binary string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("node %q: %v, %v, want an error\n%s", args, err, ctx.Err(), out)
	}
	return string(out)
}

// Three real processes are killed and started again, and refuse what is not theirs.
func TestProcesses(t *testing.T) {
	t.Parallel()
	binary := build(t)
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: dir, Settings: "log:\n  format: json\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	first := c.Nodes[0]
	config := filepath.Join(first.Dir, "node.yaml")
	t.Run("data directory is locked", func(t *testing.T) {
		args := []string{"node", "--config", config}
		for _, listener := range []string{"client", "peer", "gossip", "http"} {
			args = append(args, "--listen."+listener+"="+freeAddress(t))
		}
		said := fails(t, binary, args...)
		if !strings.Contains(said, filepath.Join(first.Dir, "data")) {
			t.Errorf("the error does not name the directory:\n%s", said)
		}
	})
	t.Run("another cluster's name", func(t *testing.T) {
		if err := c.Nodes[2].Kill(); err != nil {
			t.Fatal(err)
		}
		said := fails(t, binary, "node", "--config", filepath.Join(c.Nodes[2].Dir, "node.yaml"), "--cluster.name=other")
		if !strings.Contains(said, "other") || !strings.Contains(said, "chaos") {
			t.Errorf("the error does not name both clusters:\n%s", said)
		}
	})
	t.Run("profiles", func(t *testing.T) {
		profiled(ctx, t, binary, filepath.Join(c.Nodes[2].Dir, "node.yaml"))
	})
	t.Run("killed nodes come back", func(t *testing.T) {
		work(ctx, t, c)
	})
	t.Run("metrics", func(t *testing.T) { metrics(ctx, t, c) })
	t.Run("drain of one node", func(t *testing.T) {
		out, err := exec.CommandContext(ctx, binary, "drain", "--address", first.Client, "--timeout", "30s").CombinedOutput()
		if err != nil || first.Ready(ctx) == nil {
			t.Errorf("%v, ready %v\n%s", err, first.Ready(ctx), out)
		}
	})
	stopping, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Stop(stopping); err != nil {
		t.Error(err)
	}
}

// freeAddress returns an address of this machine that no other test uses.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// profiled starts a node with listen.debug, asks it for profiles, and kills it.
func profiled(ctx context.Context, t *testing.T, binary, config string) {
	address := freeAddress(t)
	node := exec.CommandContext(ctx, binary, "node", "--config", config, "--listen.debug="+address)
	var said bytes.Buffer
	node.Stdout, node.Stderr = &said, &said
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	for path, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=2": "cmd/node/serve.Run",
		"/debug/pprof/heap":              "",
		"/debug/pprof/cmdline":           "--listen.debug=" + address,
	} {
		for {
			text, status, err := get(ctx, t, "http://"+address+path)
			if err == nil {
				if status != http.StatusOK || text == "" || !strings.Contains(text, want) {
					t.Errorf("%s: %d %q, want %q", path, status, text, want)
				}
				break
			}
			select { // it may not listen yet
			case <-time.After(20 * time.Millisecond):
			case err := <-ended:
				t.Fatalf("the node ended with %v:\n%s", err, said.String())
			case <-ctx.Done():
				t.Fatal(err)
			}
		}
	}
	if _, status, err := get(ctx, t, "http://"+address+"/metrics"); err != nil || status != http.StatusNotFound {
		t.Errorf("%d, %v: something else is served there", status, err)
	}
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the node ended by itself")
	}
	if !strings.Contains(said.String(), "profiles are served without a login") {
		t.Errorf("the log does not warn:\n%s", said.String())
	}
}

// get returns what an address answers.
func get(ctx context.Context, t *testing.T, url string) (text string, status int, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", 0, err
	}
	b, err := io.ReadAll(r.Body)
	return string(b), r.StatusCode, errors.Join(err, r.Body.Close())
}

// metrics finds the queue's one settled message at the node that leads it, and nowhere else.
func metrics(ctx context.Context, t *testing.T, c *chaos.Cluster) {
	t.Helper()
	for last := ""; ; {
		led, settled := 0, 0
		for _, n := range c.Nodes {
			for path, count := range map[string]func(string){
				"/metrics": func(text string) { led += strings.Count(text, "\nquorate_queues_led 1\n") },
				"/metrics/queues?queue=q": func(text string) {
					settled += strings.Count(text, `quorate_queue_settled_total{queue="q",vhost="/"} 1`)
				},
			} {
				text, status, err := get(ctx, t, "http://"+n.HTTP+path)
				if err != nil || status != http.StatusOK {
					t.Fatalf("%s%s: %d, %v: %s", n.HTTP, path, status, err, text)
				}
				last = text
				count(last)
			}
		}
		if led == 1 && settled == 1 {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond): // the ack may be on its way
		case <-ctx.Done():
			t.Fatalf("%d nodes lead the queue, %d tell of its message, want 1 and 1; the last answer:\n%s", led, settled, last)
		}
	}
}

// work publishes, kills every node with SIGKILL, starts them again and consumes.
func work(ctx context.Context, t *testing.T, c *chaos.Cluster) {
	t.Helper()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cl, err := client.Dial(ctx, client.Config{Addresses: c.Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("kept")}); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := cl.Consume(ctx, client.ConsumeConfig{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Receive(ctx)
	if err != nil || string(d.Body) != "kept" || d.Ack() != nil {
		t.Fatalf("delivery %v, %v", d, err)
	}
}

func TestBadConfigurationEndsAtOnce(t *testing.T) {
	t.Parallel()
	binary := build(t)
	said := fails(t, binary, "node", "--cluster.expect=0", "--log.format=xml", "--data_dir="+t.TempDir())
	for _, want := range []string{"cluster.expect is 0", `log.format is "xml"`} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q:\n%s", want, said)
		}
	}
}

func TestMistypedCommandLine(t *testing.T) {
	t.Parallel()
	binary := build(t)
	for line, want := range map[string]string{
		"version":        `unknown command "version"; try: quorate --help, or quorate --version`,
		"nod":            `unknown command "nod"; did you mean node?`,
		"node --confg x": "unknown flag: --confg; try: quorate node --help",
	} {
		if said := fails(t, binary, strings.Fields(line)...); !strings.Contains(said, want) {
			t.Errorf("quorate %s: %s, want %q", line, said, want)
		}
	}
}

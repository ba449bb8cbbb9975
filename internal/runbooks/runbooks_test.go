package runbooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/gobuild"
	"github.com/quorate/quorate/internal/transcript"
)

const (
	pages = "../../docs/runbooks"
	// kept is how many messages queue orders has when a page begins.
	kept = 20
	// limit is how long a command may take to print what the page shows.
	limit = time.Minute
)

// world is the cluster that a page is tried on, and the programs that it names.
type world struct {
	*testing.T
	ctx     context.Context
	bin     string // directory of quorate and quoratectl
	env     []string
	cluster *chaos.Cluster
}

// Every page has a scene, every scene a page; TestPages runs them one after the other.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes: not in short mode")
	}
	bin := programs(t)
	files, err := filepath.Glob(filepath.Join(pages, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	left := scenes()
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name == "README" || name == "alerts" { // they lead to the others, and have no commands of their own
			continue
		}
		s, known := left[name]
		if delete(left, name); !known {
			t.Errorf("%s has no scene", file)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, bin, file, s)
		})
	}
	for name := range left {
		t.Errorf("scene %s has no page", name)
	}
}

// programs builds what the pages run.
func programs(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for name, pkg := range map[string]string{"quorate": "./cmd/node", "quoratectl": "./cmd/ctl"} {
		if err := gobuild.Program(t.Context(), "../..", pkg, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// try brings a cluster into the situation of a page and does what the page says.
func try(t *testing.T, bin, file string, s scene) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	dir := t.TempDir()
	if s.before != nil {
		s.before(t, dir)
	}
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: filepath.Join(bin, "quorate"), Dir: dir, Settings: s.settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, ctx: ctx, bin: bin, cluster: c}
	w.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "QUORATE_ADDRESSES="+strings.Join(c.Addresses(), ","))
	w.sh("quoratectl queue declare orders " + s.arguments)
	w.publish()
	s.prepare(w)
	commands := transcript.Commands(string(text))
	if len(commands) == 0 {
		t.Fatalf("%s has no commands", file)
	}
	for _, command := range commands {
		w.do(command)
	}
	s.after(w)
}

// publish puts numbered messages into queue orders.
func (w *world) publish() {
	w.Helper()
	cl := w.dial(client.Config{})
	for i := range kept {
		if _, err := cl.PublishOne(w.ctx, client.Message{RoutingKey: "orders", Body: fmt.Append(nil, i)}); err != nil {
			w.Fatal(err)
		}
	}
}

// holds takes every message out of a queue: each must be there, once.
func (w *world) holds(queue string, cfg client.Config) {
	w.Helper()
	s, err := w.dial(cfg).Consume(w.ctx, client.ConsumeConfig{Queue: queue})
	if err != nil {
		w.Fatal(err)
	}
	defer s.Close()
	seen := map[string]bool{}
	for len(seen) < kept {
		d, err := s.Receive(w.ctx)
		if err != nil {
			w.Fatalf("%d of %d messages came: %v", len(seen), kept, err)
		}
		if seen[string(d.Body)] {
			w.Errorf("message %s comes twice", d.Body)
		}
		seen[string(d.Body)] = true
		if err := d.Ack(); err != nil {
			w.Fatal(err)
		}
	}
}

// dial returns a client that ends with the test.
func (w *world) dial(cfg client.Config) *client.Client {
	w.Helper()
	cfg.Addresses = w.cluster.Addresses()
	cl, err := client.Dial(w.ctx, cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(cl.Close)
	return cl
}

// do runs a command of the page where it says, until it prints what it should; what changes
// something runs once.
func (w *world) do(c transcript.Command) {
	w.Helper()
	n := w.cluster.Node(c.Where)
	if n == nil && c.Where != "" {
		w.Fatalf("%s: there is no host %q", c.Line, c.Where)
	}
	if action, is := strings.CutPrefix(c.Line, "systemctl "); is {
		w.systemctl(n, action)
		return
	}
	line := c.Line
	if n != nil {
		line = strings.NewReplacer(
			"/etc/quorate", n.Dir, "/var/lib/quorate", n.DataDir(), "localhost:7070", n.Client, "localhost:7073", n.HTTP,
		).Replace(line)
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		out, err := w.run(line)
		missing := c.Missing(out)
		if err == nil && missing == "" {
			return
		}
		if !looks(c.Line) || time.Now().After(deadline) {
			w.Fatalf("%s: %v, no line like %q in\n%s", c.Line, err, missing, out)
		}
	}
}

// looks reports whether a command changes nothing, so that it may be asked again: what runs in the background may
// take a while.
func looks(line string) bool {
	for _, word := range []string{"curl ", " ls", " show ", " list", " status", " peek ", "whoami", "--dry-run"} {
		if strings.Contains(line, word) {
			return true
		}
	}
	return false
}

// systemctl does to a node's process what the service manager of its host would.
func (w *world) systemctl(n *chaos.Node, action string) {
	w.Helper()
	var err error
	switch action {
	case "stop quorate":
		err = n.Stop(w.ctx)
	case "start quorate":
		err = n.Start()
	default:
		err = errors.New("is not known")
	}
	if err != nil {
		w.Fatalf("systemctl %s: %v", action, err)
	}
}

// run runs a command line and returns all that it prints.
func (w *world) run(line string) (string, error) {
	cmd := exec.CommandContext(w.ctx, "bash", "-c", line)
	cmd.Env = w.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sh runs a command that must succeed.
func (w *world) sh(line string) {
	w.Helper()
	if out, err := w.run(line); err != nil {
		w.Fatalf("%s: %v\n%s", line, err, out)
	}
}

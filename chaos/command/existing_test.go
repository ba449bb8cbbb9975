package command

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/client"
)

// existingOptions are those of a run on the world's cluster.
func (w *world) existingOptions(target string, out *lockedBuffer, faults ...string) Options {
	o := Options{
		Target: target, Faults: faults, Workloads: []string{"publish"}, Length: 12 * time.Second, Rate: 100, MaxPause: busyPause,
		Out: filepath.Join(w.TempDir(), "run"), Output: out,
	}
	o.Existing.Confirm = "prod-test"
	o.Existing.Nodes.Client = client.Config{Addresses: w.nodes.Addresses()}
	return o
}

// lockedBuffer is what a run prints, for a test that looks meanwhile.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// runs puts the faults in, one after another, and ends then. It demands that the history is valid, that each was felt,
// and that nothing of the run is left.
func (w *world) runs(o Options, out *lockedBuffer) {
	w.Helper()
	p := plan{Target: o.Target, Length: 3 * time.Minute, Faults: o.Faults, Workloads: o.Workloads, Rate: o.Rate, Each: true}
	var kinds []fault.Kind
	for _, k := range fault.Kinds() {
		if slices.Contains(o.Faults, k.Name) {
			kinds = append(kinds, k)
		}
	}
	p.Steps = fault.Each(kinds, 1)
	for i := range p.Steps { // a node notices a cut after most of a second
		p.Steps[i].For = max(p.Steps[i].For, w.least)
	}
	o.Replay, o.Strict = w.TempDir(), true
	if err := p.write(filepath.Join(o.Replay, planFile)); err != nil {
		w.Fatal(err)
	}
	if err := Run(w.Context(), o); err != nil {
		w.Fatalf("%v\n%s", err, out)
	}
	came := strings.Join(faultsOf(w.T, o.Out), "\n")
	for _, f := range o.Faults {
		if !strings.Contains(came, f+" of ") {
			w.Errorf("there was no %s:\n%s\n%s", f, came, out)
		}
	}
	w.untouched()
}

// untouched demands that all nodes are ready and no vhost of a run is left.
func (w *world) untouched() {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	if err := w.nodes.Cluster.WaitReady(ctx); err != nil {
		w.Error(err)
	}
	c, err := client.Dial(ctx, client.Config{Addresses: w.nodes.Addresses()})
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	for v, err := range c.VHosts(ctx) {
		if err != nil || v.Name != "/" {
			w.Errorf("vhost %q is left, %v", v.Name, err)
		}
	}
}

// What needs only clients goes into a cluster that is already there, in a vhost of its own.
func TestAddresses(t *testing.T) {
	var out lockedBuffer
	w := newWorld(t, nil)
	w.runs(w.existingOptions(addresses, &out, "transfer", "rebuild", "close"), &out)
}

// A cluster that is already there gets faults only if it is named, and well; what destroys data is
// asked for by name.
func TestGuard(t *testing.T) {
	var out lockedBuffer
	w := newWorld(t, nil)
	for confirm, want := range map[string]string{"": "--confirm", "prod": "--confirm prod-test"} {
		o := w.existingOptions(addresses, &out, "transfer")
		o.Existing.Confirm = confirm
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("confirmed as %q: %v", confirm, err)
		}
	}
	if err := w.nodes.Cluster.Nodes[2].Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		err := Run(t.Context(), w.existingOptions(addresses, &out, "transfer"))
		if err != nil && strings.Contains(err.Error(), "is not well") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with a node down: %v", err)
		}
	}
	if err := w.nodes.Cluster.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.untouched()
	p := plan{Target: containers}
	cfg, err := p.config(existing()[3].abilities)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range cfg.Faults {
		if k.Named {
			t.Errorf("%s is put in without being named", k.Name)
		}
	}
}

// dockerLike acts on processes as docker does on containers; a container's network is the process
// itself, which stands still without.
func dockerLike(w *world, a asked, _ <-chan struct{}) (string, error) {
	id := strings.TrimPrefix(a.Args[len(a.Args)-1], "box-")
	n, err := w.node(id)
	if err != nil {
		return "", err
	}
	switch args := a.Args; {
	case starts(args, "kill --signal KILL"):
		return id, n.Kill()
	case starts(args, "stop --time 60"):
		return id, n.Stop(w.Context())
	case starts(args, "start"):
		if _, running := n.Running(); running {
			return id, nil
		}
		return id, n.Start()
	case starts(args, "pause"), starts(args, "network disconnect backend"):
		return id, n.Pause()
	case starts(args, "unpause"), starts(args, "network connect --alias broker --ip 10.0.0.7 backend"):
		return id, n.Resume()
	case starts(args, "inspect --format {{.State.Running}}"):
		_, running := n.Running()
		return fmt.Sprintln(running), nil
	case starts(args, "inspect --format {{json .NetworkSettings.Networks}}"):
		return `{"backend":{"Aliases":["broker"],"IPAMConfig":{"IPv4Address":"10.0.0.7"}}}`, nil
	default:
		return "", fmt.Errorf("unknown command docker %q", args)
	}
}

func TestDocker(t *testing.T) {
	var out lockedBuffer
	w := newWorld(t, dockerLike)
	o := w.existingOptions(containers, &out, "kill", "restart", "pause", "unplug")
	o.Existing.Docker.Containers = map[string]string{"n1": "box-n1", "n2": "box-n2", "n3": "box-n3"}
	w.runs(o, &out)
}

// What an interrupted run has done is undone.
func TestInterrupted(t *testing.T) {
	var out lockedBuffer
	w := newWorld(t, dockerLike)
	o := w.existingOptions(containers, &out, "pause")
	o.Length = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	paused := func() bool {
		for _, a := range w.called("docker") {
			if a.Args[0] == "pause" {
				return true
			}
		}
		return false
	}
	for !paused() {
		select {
		case err := <-ended:
			t.Fatalf("the run ended: %v\n%s", err, &out)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("an interrupted run is told as valid")
	}
	w.untouched()
}

// systemdLike is systemctl on the hosts that ssh reaches.
func systemdLike(w *world, a asked, _ <-chan struct{}) (string, error) {
	n, err := w.node(strings.TrimPrefix(a.Host, "ops@"))
	if err != nil {
		return "", err
	}
	switch args := a.Args; {
	case starts(args, "show --property=MainPID --value"):
		pid, _ := n.Running()
		return fmt.Sprintln(pid), nil
	case starts(args, "kill --kill-whom=main --signal=KILL"):
		return "", n.Kill()
	case starts(args, "stop"):
		return "", n.Stop(w.Context())
	case starts(args, "reset-failed"):
		return "", nil
	case starts(args, "start"):
		if _, running := n.Running(); running {
			return "", nil
		}
		return "", n.Start()
	default:
		return "", fmt.Errorf("unknown command systemctl %q", args)
	}
}

// Nodes that systemd runs.
func TestSystemd(t *testing.T) {
	var out lockedBuffer
	w := newWorld(t, systemdLike)
	o := w.existingOptions(overSSH, &out, "kill", "restart", "pause")
	o.Existing.SSH.Hosts = map[string]string{"n1": "ops@n1", "n2": "ops@n2", "n3": "ops@n3"}
	w.runs(o, &out)
}

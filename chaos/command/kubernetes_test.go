package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// kubernetes is what the test's kubectl talks to: pods are processes, which come back as a StatefulSet
// makes pods, on machines that have their names.
type kubernetesLike struct {
	mu       sync.Mutex
	replicas int
	pods     map[string]int    // how often a pod was made, by its name
	down     map[string]bool   // pods that wait for their machine
	cordoned map[string]bool   // machines
	wiped    map[string]bool   // claims that go with their pods
	made     map[string]bool   // objects that the run made and has not deleted
	cuts     map[string]policy // that are enforced, by name
	waited   bool              // until all pods have been ready for long enough
}

// policy is what of a NetworkPolicy is enforced here.
type policy struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		PodSelector struct{ MatchLabels map[string]string }
		Egress      []struct {
			To []struct {
				PodSelector struct {
					MatchExpressions []struct{ Values []string }
				}
			}
		}
	}
}

// ways are the names of the pods that it lets one pod send nothing to.
func (p *policy) ways() (from string, to []string) {
	return p.Spec.PodSelector.MatchLabels["statefulset.kubernetes.io/pod-name"], p.Spec.Egress[0].To[0].PodSelector.MatchExpressions[0].Values
}

func newKubernetesLike() *kubernetesLike {
	return &kubernetesLike{
		replicas: 3, pods: map[string]int{}, down: map[string]bool{}, cordoned: map[string]bool{}, wiped: map[string]bool{}, made: map[string]bool{}, cuts: map[string]policy{},
	}
}

// answer is kubectl.
func (k *kubernetesLike) answer(w *world, a asked, gone <-chan struct{}) (string, error) {
	args := without(a.Args, "--namespace", "--context")
	name := args[len(args)-1]
	object := args[min(2, len(args)-1)] // that is got or deleted
	paused, pausing := strings.CutPrefix(object, "quorate-chaos-pause-")
	switch {
	case starts(args, "get statefulset quorate --output json"):
		k.mu.Lock()
		defer k.mu.Unlock()
		return fmt.Sprintf(`{"metadata":{"namespace":"mq"},"spec":{"replicas":%d}}`, k.replicas), nil
	case starts(args, "scale statefulset/quorate"):
		return "", k.scale(w, args[2:])
	case starts(args, "get persistentvolumeclaim"):
		return k.claim(w, object)
	case starts(args, "get pod"):
		return k.pod(w, object)
	case starts(args, "get node"):
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.cordoned[object] {
			return "true", nil
		}
		return "", nil
	case starts(args, "delete pod") && pausing:
		k.forget(object)
		n, err := w.node(paused)
		if err != nil {
			return "", err
		}
		return "", n.Resume()
	case starts(args, "delete pod"):
		return "", k.delete(w, object, slices.Contains(args, "--force"))
	case starts(args, "delete persistentvolumeclaim"):
		return "", k.wipe(w, strings.TrimPrefix(object, "data-"))
	case starts(args, "delete networkpolicy"):
		return "", k.enforce(w, object, nil)
	case starts(args, "wait statefulset/quorate"):
		k.mu.Lock()
		k.waited = true
		k.mu.Unlock()
		return "", nil
	case starts(args, "rollout restart statefulset/quorate"):
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.waited {
			return "", errors.New("a rollout of pods that are not available replaces them all at once")
		}
		k.waited = false
		return "", nil
	case starts(args, "rollout status statefulset/quorate"):
		for _, n := range w.nodes.Cluster.Nodes {
			if err := k.delete(w, n.ID, false); err != nil {
				return "", err
			}
			if err := k.ready(w, n.ID); err != nil {
				return "", err
			}
		}
		return "", nil
	case starts(args, "drain"):
		k.mu.Lock()
		k.cordoned[args[1]] = true
		k.mu.Unlock()
		return "", k.delete(w, strings.TrimPrefix(args[1], "machine-of-"), false)
	case starts(args, "uncordon"):
		k.mu.Lock()
		delete(k.cordoned, name)
		pod := strings.TrimPrefix(name, "machine-of-")
		waits := k.down[pod]
		delete(k.down, pod)
		k.mu.Unlock()
		if waits {
			return "", k.create(w, pod)
		}
		return "", nil
	case starts(args, "create --filename -"), starts(args, "apply --filename -"):
		return "", k.apply(w, a.Input)
	case starts(args, "logs"):
		return "the node is stopped\n", nil
	case starts(args, "port-forward --address 127.0.0.1"):
		return "", forward(w, args[3:], gone)
	default:
		return "", fmt.Errorf("unknown command %q", args)
	}
}

// pod is a pod as JSON.
func (k *kubernetesLike) pod(w *world, name string) (string, error) {
	n, err := w.node(name)
	if err != nil || !k.wanted(name) {
		return "", nil // --ignore-not-found
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	phase, state := "Pending", "waiting"
	if _, running := n.Running(); running {
		phase, state = "Running", "running"
	}
	return fmt.Sprintf(`{"metadata":{"uid":"%s-%d"},"spec":{"nodeName":"machine-of-%s"},"status":{"phase":%q,"podIP":"10.0.0.%c","containerStatuses":[{"state":{%q:{}}}]}}`,
		name, k.pods[name], name, phase, name[len(name)-1]+1, state), nil
}

// delete ends a pod, and lets the StatefulSet make another one.
func (k *kubernetesLike) delete(w *world, name string, force bool) error {
	n, err := w.node(name)
	if err != nil {
		return err
	}
	if force {
		err = n.Kill()
	} else {
		err = n.Stop(w.Context())
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	wipe := k.wiped[name]
	delete(k.wiped, name)
	waits := k.cordoned["machine-of-"+name]
	k.down[name] = waits
	k.pods[name]++
	k.mu.Unlock()
	if wipe {
		if err := os.RemoveAll(n.DataDir()); err != nil {
			return err
		}
	}
	if waits {
		return nil
	}
	go func() {
		time.Sleep(300 * time.Millisecond) // as the controller takes its time
		if err := k.create(w, name); err != nil {
			w.Error(err)
		}
	}()
	return nil
}

// ordinal is the last part of a pod's name.
func ordinal(name string) int { return int(name[len(name)-1] - '0') }

// wanted reports whether the StatefulSet has the pod.
func (k *kubernetesLike) wanted(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return ordinal(name) < k.replicas
}

// scale makes the next pod, or ends the last one, as the flags of kubectl say.
func (k *kubernetesLike) scale(w *world, flags []string) error {
	var from, to int
	if _, err := fmt.Sscanf(strings.Join(flags, " "), "--current-replicas=%d --replicas=%d", &from, &to); err != nil {
		return err
	}
	k.mu.Lock()
	now := k.replicas
	k.replicas = to
	k.mu.Unlock()
	if now != from {
		return fmt.Errorf("there are %d replicas, not %d", now, from)
	}
	if to > from {
		return k.create(w, fmt.Sprintf("quorate-%d", from))
	}
	n, err := w.node(fmt.Sprintf("quorate-%d", to))
	if err != nil {
		return err
	}
	if _, running := n.Running(); !running {
		return nil
	}
	return n.Stop(w.Context())
}

// claim returns a claim's name if it has a volume with something in it.
func (k *kubernetesLike) claim(w *world, name string) (string, error) {
	n, err := w.node(strings.TrimPrefix(name, "data-"))
	if err != nil {
		return "", err
	}
	switch _, err := os.Stat(n.DataDir()); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil // --ignore-not-found
	case err != nil:
		return "", err
	}
	return "persistentvolumeclaim/" + name, nil
}

// wipe deletes a claim: with its pod, or at once if that is gone.
func (k *kubernetesLike) wipe(w *world, name string) error {
	if k.wanted(name) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.wiped[name] = true
		return nil
	}
	n, err := w.node(name)
	if err != nil {
		return err
	}
	return os.RemoveAll(n.DataDir())
}

// create runs a pod that was made.
func (k *kubernetesLike) create(w *world, name string) error {
	n, err := w.node(name)
	if err == nil {
		err = n.Start()
	}
	return err
}

// ready waits for a pod as a rollout does.
func (k *kubernetesLike) ready(w *world, name string) error {
	n, err := w.node(name)
	for err == nil {
		if _, running := n.Running(); running {
			return n.WaitReady(w.Context())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (k *kubernetesLike) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.made, name)
}

// apply does what an object says.
func (k *kubernetesLike) apply(w *world, text string) error {
	var o policy
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	k.mu.Lock()
	k.made[o.Metadata.Name] = true
	k.mu.Unlock()
	switch o.Kind {
	case "Pod":
		n, err := w.node(strings.TrimPrefix(o.Metadata.Name, "quorate-chaos-pause-"))
		if err != nil {
			return err
		}
		return n.Pause()
	case "NetworkPolicy":
		return k.enforce(w, o.Metadata.Name, &o)
	default:
		return fmt.Errorf("no kind %q", o.Kind)
	}
}

// enforce puts a policy in the place of the one with its name; nil: none.
func (k *kubernetesLike) enforce(w *world, name string, now *policy) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if before, was := k.cuts[name]; was {
		from, all := before.ways()
		for _, to := range all {
			if err := w.nodes.Join(w.Context(), from, to); err != nil {
				return err
			}
		}
	}
	delete(k.cuts, name)
	if now == nil {
		delete(k.made, name)
		return nil
	}
	k.cuts[name] = *now
	from, all := now.ways()
	for _, to := range all {
		if err := w.nodes.Cut(w.Context(), from, to); err != nil {
			return err
		}
	}
	return nil
}

// forward listens at the local ports until the pod ends or kubectl does.
func forward(w *world, args []string, gone <-chan struct{}) error {
	n, err := w.node(strings.TrimPrefix(args[0], "pod/"))
	if err != nil {
		return err
	}
	if _, running := n.Running(); !running {
		return fmt.Errorf("pod %s is not running", n.ID)
	}
	to := map[string]string{"7070": n.Client, "7073": n.HTTP, "5672": n.AMQP}
	for _, pair := range args[1:] {
		here, there, _ := strings.Cut(pair, ":")
		l, err := (&net.ListenConfig{}).Listen(w.Context(), "tcp", "127.0.0.1:"+here)
		if err != nil {
			return err
		}
		defer l.Close() //nolint:errcheck // it is over
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go carry(w.Context(), c, to[there], gone)
			}
		}()
	}
	for {
		select {
		case <-gone:
			return nil
		case <-time.After(50 * time.Millisecond):
			if _, running := n.Running(); !running {
				return fmt.Errorf("lost connection to pod")
			}
		}
	}
}

// carry connects a connection with an address.
func carry(ctx context.Context, c net.Conn, to string, gone <-chan struct{}) {
	defer c.Close() //nolint:errcheck // it is over
	there, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer there.Close() //nolint:errcheck // it is over
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(there, c); ended <- struct{}{} }()
	go func() { _, _ = io.Copy(c, there); ended <- struct{}{} }()
	select {
	case <-ended:
	case <-gone:
	}
}

// All that the driver for Kubernetes does to pods, machines and policies, done to real processes.
func TestKubernetes(t *testing.T) {
	real, _ := exec.LookPath("kubectl")
	var out lockedBuffer
	k := newKubernetesLike()
	w := newWorld(t, k.answer, "quorate-0", "quorate-1", "quorate-2", "quorate-3")
	o := w.existingOptions(kubernetes, &out, "kill", "restart", "pause", "isolate", "one-way-out", "evict", "wiped", "rollout", "scale")
	o.Existing.K8s.PauseImage = "busybox:stable"
	o.Existing.Nodes.Client.Addresses = nil
	w.least = 3 * time.Second
	w.runs(o, &out)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.made) > 0 || len(k.cordoned) > 0 || len(k.cuts) > 0 || k.replicas != 3 {
		t.Errorf("left: objects %v, closed machines %v, policies %v, %d replicas", k.made, k.cordoned, k.cuts, k.replicas)
	}
	if claim, err := k.claim(w, "data-quorate-3"); claim != "" || err != nil {
		t.Errorf("left: claim %q, %v", claim, err)
	}
	understood(t, real, w.called("kubectl"))
}

// understood demands that kubectl itself understands every command line: it must get as far as to miss
// the cluster.
func understood(t *testing.T, kubectl string, calls []asked) {
	t.Helper()
	if kubectl == "" {
		t.Log("NOT TESTED: kubectl is not installed, so that nothing says whether it understands the command lines")
		return
	}
	seen := map[string]bool{}
	for _, a := range calls {
		line := strings.Join(a.Args, " ")
		if seen[line] || strings.Contains(line, "port-forward") && len(seen) > 0 && strings.Contains(fmt.Sprint(seen), "port-forward") {
			continue
		}
		seen[line] = true
		cmd := exec.CommandContext(t.Context(), kubectl, append([]string{"--server=http://127.0.0.1:1"}, a.Args...)...)
		cmd.Stdin = strings.NewReader(a.Input)
		said, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(said), "connection refused") {
			t.Errorf("kubectl %s: %v: %s", line, err, said)
		}
	}
}

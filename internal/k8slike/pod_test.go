//go:build linux

package k8slike

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What the StatefulSet says.
const (
	user        = 65532
	gracePeriod = 150 * time.Second
	preStop     = "60s"
)

const (
	// killTime is how long a process may take to be gone after SIGKILL, on a busy machine.
	killTime = 30 * time.Second
	// quitTime is how long it has to write the stacks of its goroutines after SIGQUIT.
	quitTime = 10 * time.Second
)

// enter is what runs in a pod's fresh namespaces until it becomes the node: it waits for
// its network card, makes the root read-only and gives up root's rights.
const enter = `set -eu
read -r ready
ip link set lo up
ip addr add "$1/24" dev eth0
ip link set eth0 up
mount --bind "$2" "$2"
mount --bind "$3" "$2/var/lib/quorate"
mount -o remount,bind,ro "$2"
shift
root=$1
shift 2
exec env -i "$@" chroot --userspec=65532:65532 --groups=65532 "$root" /quorate node --config /etc/quorate/node.yaml`

// pod is one of the StatefulSet's. What changes at every start belongs to the goroutine
// that starts and stops it.
type pod struct {
	w    *world
	name string
	root string // of the image
	data string // the volume

	life    int // counts starts
	address string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process is over
	endedBy error
	log     string
}

// newPod unpacks the image and mounts what the manifests mount.
func newPod(w *world, name string) (*pod, error) {
	p := &pod{w: w, name: name, root: filepath.Join(w.dir, name, "root"), data: filepath.Join(w.dir, name, "volume")}
	files := map[string]string{
		"quorate": w.binary, "etc/quorate/node.yaml": w.config, "run/secrets/quorate/gossip-key": w.key, "etc/resolv.conf": w.resolv,
	}
	var errs []error
	for _, dir := range []string{p.data, filepath.Join(p.root, "var/lib/quorate")} {
		errs = append(errs, os.MkdirAll(dir, 0o755))
	}
	for to, from := range files {
		to = filepath.Join(p.root, to)
		errs = append(errs, os.MkdirAll(filepath.Dir(to), 0o755), os.Link(from, to))
	}
	// As fsGroup leaves a volume.
	errs = append(errs, os.Chown(p.data, 0, user), os.Chmod(p.data, 0o775|os.ModeSetgid))
	return p, errors.Join(errs...)
}

func (p *pod) env() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + p.name,
		"QUORATE_NODE_ID=" + p.name, "QUORATE_ADVERTISE__HOST=" + p.name + "." + headless,
		"QUORATE_ADVERTISE__GOSSIP=" + p.address,
		"QUORATE_AUTH__LOOPBACK_USERS=", // guest comes from other pods here
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443",
	}
}

// start runs the pod at an address; its name is for the caller to publish.
func (p *pod) start(address string) error {
	p.life++
	p.address, p.log = address, filepath.Join(p.w.dir, p.name, "log-"+strconv.Itoa(p.life))
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has its own handle
	p.cmd = exec.CommandContext(p.w.ctx, "sh", append([]string{"-c", enter, "enter", address, p.root, p.data}, p.env()...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// Whatever the test still waits for when its time is over, the pods say what they wait for.
	cmd := p.cmd
	p.cmd.Cancel, p.cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }, quitTime
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	ready, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.ended = ended
	go func() {
		p.endedBy = cmd.Wait()
		close(ended)
	}()
	// The card's hardware address follows from its address, so that a reused address is
	// reached at once, as it is where machines route to pods.
	var host int
	if _, err := fmt.Sscanf(address[strings.LastIndex(address, ".")+1:], "%d", &host); err != nil {
		return err
	}
	if err := ip("link", "add", p.card(), "type", "veth", "peer", "name", "eth0",
		"address", fmt.Sprintf("02:00:0a:4d:00:%02x", host), "netns", strconv.Itoa(p.cmd.Process.Pid)); err != nil {
		return err
	}
	if err := ip("link", "set", p.card(), "master", bridge, "up"); err != nil {
		return err
	}
	_, err = io.WriteString(ready, "ready\n")
	return errors.Join(err, ready.Close())
}

func (p *pod) card() string { return "p" + p.name[len(p.name)-1:] + "-" + strconv.Itoa(p.life) }

// unplug takes the pod's network away, without a word to anybody.
func (p *pod) unplug() error { return ip("link", "del", p.card()) }

// kill ends the pod at once, as when its machine is lost: nobody gets a last packet.
func (p *pod) kill() error {
	err := p.unplug()
	return errors.Join(err, p.cmd.Process.Kill(), p.over(killTime))
}

// quit ends a pod that does not end, with the stacks of its goroutines in its log.
func (p *pod) quit() error {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err
	}
	if p.over(quitTime) == nil {
		return p.unplug()
	}
	return p.kill()
}

// over waits for the process to end.
func (p *pod) over(wait time.Duration) error {
	select {
	case <-p.ended:
		return nil
	case <-time.After(wait):
		return fmt.Errorf("%s runs %v after it should have ended", p.name, wait)
	}
}

// drain runs the pod's preStop hook inside of it.
func (p *pod) drain(ctx context.Context) (string, error) {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	id := strconv.Itoa(user)
	args := []string{"-t", pid, "-n", "-m", "-r", "-w", "-S", id, "-G", id, "/quorate", "drain", "--config", "/etc/quorate/node.yaml", "--timeout", preStop}
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = p.env()
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// remove ends the pod as the kubelet does: preStop, SIGTERM, and SIGKILL when the grace
// period is over, which is an error here.
func (p *pod) remove() error {
	ctx, cancel := context.WithTimeout(p.w.ctx, gracePeriod)
	defer cancel()
	begin := time.Now()
	said, err := p.drain(ctx)
	drained := time.Since(begin)
	if err != nil && p.w.last && strings.Contains(said, "still leads") {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("preStop of %s: %w: %s", p.name, err, said)
	} else if p.probe(ctx, "ready") == nil {
		err = fmt.Errorf("%s is ready after its preStop", p.name)
	}
	if err == nil && p.w.drained != nil && !p.w.last {
		err = p.w.drained(p.name)
	}
	if e := p.cmd.Process.Signal(syscall.SIGTERM); e != nil {
		return errors.Join(err, e)
	}
	if e := p.over(gracePeriod - drained); e != nil {
		return errors.Join(err, fmt.Errorf("SIGTERM: %w: its log has the stacks", e), p.quit())
	}
	p.w.t.Logf("%s drained in %v, ended after %v: %v", p.name, drained.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond), p.endedBy)
	if p.endedBy != nil {
		err = errors.Join(err, fmt.Errorf("%s ended after SIGTERM by: %w", p.name, p.endedBy))
	}
	return err
}

// probe asks the pod for its health, as the kubelet does: by its address.
func (p *pod) probe(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+":7073/health/"+path, nil)
	if err != nil {
		return err
	}
	// A connection of its own for each probe.
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, strings.TrimSpace(string(body)))
	}
	return nil
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput() //nolint:noctx // ends by itself
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

//go:build linux

package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/deploy/k8s/e2e/cri"
)

// programEnv makes this test's binary one of the programs of testdata/pods.yaml, whose image it is.
const programEnv = "QUORATE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(programEnv) {
	case "":
		os.Exit(m.Run())
	case "look":
		os.Exit(look())
	case "serve":
		os.Exit(serve())
	case "kubelet":
		os.Exit(kubelet())
	}
}

// look prints what a container sees, and fails the first time.
func look() int {
	for _, file := range []string{"/etc/config/key", "/etc/secret/key", "/etc/podinfo/labels", "/etc/resolv.conf"} {
		text, err := os.ReadFile(file)
		fmt.Printf("%s: %s %v\n", file, strings.TrimSpace(string(text)), err)
	}
	fmt.Printf("user %d group %d env %s %s %s\n", os.Getuid(), os.Getgid(), os.Getenv("FROM_CONFIG"), os.Getenv("FROM_SECRET"), os.Getenv("POD_IP"))
	hostname, err := os.Hostname()
	fmt.Printf("hostname %s %v\n", hostname, err)
	fmt.Println("root:", os.WriteFile("/written", nil, 0o600))
	if err := os.WriteFile("/scratch/file", []byte("x"), 0o600); err != nil {
		fmt.Println("scratch:", err)
	}
	if _, err := os.Stat("/data/been-here"); err != nil {
		fmt.Println("the first run:", os.WriteFile("/data/been-here", nil, 0o600))
		return 3
	}
	fmt.Println("the second run")
	return 0
}

// serve answers, until /be-ill is asked.
func serve() int {
	ill := make(chan struct{})
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-ill:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusOK)
		}
	})
	http.HandleFunc("/be-ill", func(http.ResponseWriter, *http.Request) { close(ill) })
	fmt.Println(http.ListenAndServe(":8080", nil))
	return 1
}

// Pods get what their manifests say: files, variables, volumes, users, probes, names, and streams for kubectl.
func TestCluster(t *testing.T) { Inside(t, cluster) }

func cluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	programs, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k, err := Start(ctx, Config{Bin: programs, Dir: t.TempDir(), Zones: []string{"here"}, Images: map[string]cri.Image{
		"self:1": {Files: map[string]string{"/self": self}, Entrypoint: []string{"/self"}, User: 65532},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Stop)
	c := &looker{t: t, ctx: ctx, k: k}
	c.kubectl("apply", "-f", "testdata/pods.yaml")
	t.Run("job", c.job)
	t.Run("volume", c.volume)
	t.Run("service", c.service)
	t.Run("restart", c.restart)
	t.Run("image", c.image)
}

// looker looks at what runs in a cluster.
type looker struct {
	t   *testing.T
	ctx context.Context
	k   *Cluster
}

func (c *looker) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.k.Kubectl(c.ctx, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// await polls until a condition holds.
func (c *looker) await(t *testing.T, what string, holds func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
	defer cancel()
	if err := await(ctx, what, nil, holds); err != nil {
		t.Fatal(err)
	}
}

// job looks at what a container has printed that failed once.
func (c *looker) job(t *testing.T) {
	c.kubectl("wait", "--for=condition=Complete", "job/look", "--timeout=2m")
	out := c.kubectl("logs", "job/look")
	ip := c.kubectl("get", "pod", "-l", "job-name=look", "-o", "jsonpath={.items[0].status.podIP}")
	for _, want := range []string{
		"/etc/config/key: of the config <nil>", "/etc/secret/key: of the secret <nil>", `job-name="look"`, "nameserver " + dnsService,
		"search default.svc.cluster.local", "user 65532 group 65532 env of the config of the secret " + ip, "hostname look-",
		"root: open /written: read-only file system", "the second run",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the job's log lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "scratch:") {
		t.Errorf("the job cannot write to its emptyDir:\n%s", out)
	}
}

// volume enlarges a claim.
func (c *looker) volume(t *testing.T) {
	c.kubectl("patch", "pvc", "data", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	c.kubectl("wait", "--for=jsonpath={.status.capacity.storage}=2Gi", "pvc/data", "--timeout=1m")
	if got := c.kubectl("get", "pv", "-o", "jsonpath={.items[*].spec.capacity.storage}"); got != "2Gi" {
		t.Errorf("the volume has %s", got)
	}
}

// service reaches a pod by its service's address, and by port-forward.
func (c *looker) service(t *testing.T) {
	c.kubectl("rollout", "status", "deployment/serve", "--timeout=1m")
	c.await(t, "the service", answers("http://"+net.JoinHostPort(c.kubectl("get", "service", "serve", "-o", "jsonpath={.spec.clusterIP}"), "80")+"/health"))
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(dnsService, "53"))
	}}
	c.await(t, "the service's name", func(ctx context.Context) error {
		_, err := resolver.LookupHost(ctx, "serve.default.svc.cluster.local.")
		return err
	})
	forward := exec.CommandContext(c.ctx, filepath.Join(c.k.config.Bin, "kubectl"), "--kubeconfig", c.k.Kubeconfig, "port-forward", "deployment/serve", "18080:8080")
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Kill() // it runs until it is ended
		_ = forward.Wait()
	}()
	c.await(t, "port-forward", answers("http://127.0.0.1:18080/health"))
}

// restart lets a liveness probe fail.
func (c *looker) restart(t *testing.T) {
	ip := c.kubectl("get", "pod", "-l", "app=serve", "-o", "jsonpath={.items[0].status.podIP}")
	if err := answers("http://" + ip + ":8080/be-ill")(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.kubectl("wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "pod", "-l", "app=serve", "--timeout=1m")
	c.kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=serve", "--timeout=1m")
}

// image runs a pod of an image that comes later.
func (c *looker) image(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.kubectl("set", "image", "deployment/serve", "serve=self:2")
	c.kubectl("wait", "--for=jsonpath={.status.unavailableReplicas}=1", "deployment/serve", "--timeout=1m")
	if err := c.k.Images.Put("self:2", cri.Image{Files: map[string]string{"/self": self}, Entrypoint: []string{"/self"}, User: 65532}); err != nil {
		t.Fatal(err)
	}
	c.kubectl("rollout", "status", "deployment/serve", "--timeout=2m")
}

// answers is a condition: a URL answers with 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	}
}

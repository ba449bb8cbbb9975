package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quorate/quorate/internal/loopback"
)

// startTime is what a control plane has to start in, on a machine that does much else.
const startTime = 2 * time.Minute

// serviceRange is where services get their addresses, and the first of them, the API server's.
const (
	serviceRange = "10.96.0.0/16"
	apiService   = "10.96.0.1"
)

// ControlPlaneConfig is how to start one.
type ControlPlaneConfig struct {
	// Bin is the directory of the programs.
	Bin string
	// Dir is a directory of its own, for all data, certificates and logs.
	Dir string
	// Address is where everything listens. Not valid: on loopback, where the API server knows no
	// address that pods could use.
	Address netip.Addr
}

// ControlPlane is etcd, an API server and a controller manager. Its methods may be called concurrently, except Stop.
type ControlPlane struct {
	// Kubeconfig is the path of an administrator's file.
	Kubeconfig string

	config       ControlPlaneConfig
	certificates *certificates
	server       string // URL
	processes    []*process
}

// StartControlPlane starts a control plane and returns when it serves. Stop has to be called unless it
// returns an error.
func StartControlPlane(ctx context.Context, c ControlPlaneConfig) (_ *ControlPlane, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	p := &ControlPlane{config: c}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	if p.certificates, err = newCertificates(filepath.Join(c.Dir, "pki")); err != nil {
		return nil, err
	}
	etcd, err := p.startEtcd(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.startServer(ctx, etcd); err != nil {
		return nil, err
	}
	return p, p.startManager(ctx)
}

// Stop ends it. It may be called again.
func (p *ControlPlane) Stop() {
	stopAll(p.processes)
	p.processes = nil
}

// Config returns an administrator's way to the API server.
func (p *ControlPlane) Config() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
}

// UserConfig returns the path of a kubeconfig for another user, whose rights are what RBAC gives.
func (p *ControlPlane) UserConfig(user string, groups ...string) (string, error) {
	return p.certificates.kubeconfig(user, p.server, user, groups...)
}

// Kubectl runs kubectl as the administrator and returns what it printed.
func (p *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, filepath.Join(p.config.Bin, "kubectl"), append([]string{"--kubeconfig", p.Kubeconfig}, args...)...)
}

// listen returns an address for a program to listen at.
func (p *ControlPlane) listen(port int) (string, error) {
	if p.config.Address.IsValid() {
		return netip.AddrPortFrom(p.config.Address, uint16(port)).String(), nil
	}
	return loopback.Address()
}

// start starts a program of the directory of programs.
func (p *ControlPlane) start(name string, args ...string) (*process, error) {
	proc, err := startProcess(p.config.Dir, filepath.Join(p.config.Bin, name), args...)
	if err == nil {
		p.processes = append(p.processes, proc)
	}
	return proc, err
}

func (p *ControlPlane) startEtcd(ctx context.Context) (url string, err error) {
	at, err := p.listen(2379)
	if err != nil {
		return "", err
	}
	peer, err := p.listen(2380)
	if err != nil {
		return "", err
	}
	host := netip.MustParseAddrPort(at).Addr().String()
	if err := errors.Join(p.certificates.issueTo("etcd", "etcd", nil, []string{host}), p.certificates.issueTo("etcd-client", "kube-apiserver", nil, nil)); err != nil {
		return "", err
	}
	url, file := "https://"+at, p.certificates.file
	proc, err := p.start("etcd", "--name=e2e", "--data-dir="+filepath.Join(p.config.Dir, "etcd"),
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=e2e=http://"+peer,
		"--cert-file="+file("etcd.crt"), "--key-file="+file("etcd.key"), "--trusted-ca-file="+file("ca.crt"), "--client-cert-auth",
		"--unsafe-no-fsync") // nothing of a test survives a power cut
	if err != nil {
		return "", err
	}
	config := &rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{
		CAFile: file("ca.crt"), CertFile: file("etcd-client.crt"), KeyFile: file("etcd-client.key"),
	}}
	return url, await(ctx, "etcd", proc, healthy(config, url+"/health"))
}

func (p *ControlPlane) startServer(ctx context.Context, etcd string) error {
	at, err := p.listen(6443)
	if err != nil {
		return err
	}
	addr := netip.MustParseAddrPort(at)
	host, file := addr.Addr().String(), p.certificates.file
	reconciler := "lease"
	if addr.Addr().IsLoopback() {
		reconciler = "none"
	}
	p.server = "https://" + at
	names := []string{host, apiService, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	err = errors.Join(
		p.certificates.issueTo("apiserver", "kube-apiserver", nil, names),
		p.certificates.issueTo("kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}, nil),
		p.certificates.issueTo("service-accounts", "service-accounts", nil, nil),
	)
	if err != nil {
		return err
	}
	if p.Kubeconfig, err = p.certificates.kubeconfig("admin", p.server, "admin", "system:masters"); err != nil {
		return err
	}
	proc, err := p.start("kube-apiserver",
		"--etcd-servers="+etcd, "--etcd-cafile="+file("ca.crt"), "--etcd-certfile="+file("etcd-client.crt"), "--etcd-keyfile="+file("etcd-client.key"),
		"--bind-address="+host, "--advertise-address="+host, "--secure-port="+strconv.Itoa(int(addr.Port())), "--endpoint-reconciler-type="+reconciler,
		"--tls-cert-file="+file("apiserver.crt"), "--tls-private-key-file="+file("apiserver.key"), "--client-ca-file="+file("ca.crt"),
		"--kubelet-certificate-authority="+file("ca.crt"), "--kubelet-client-certificate="+file("kubelet-client.crt"), "--kubelet-client-key="+file("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP", "--enable-aggregator-routing", "--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-cluster-ip-range="+serviceRange,
		"--service-account-key-file="+file("service-accounts.crt"), "--service-account-signing-key-file="+file("service-accounts.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--cert-dir="+p.certificates.dir)
	if err != nil {
		return err
	}
	config, err := p.Config()
	if err != nil {
		return err
	}
	return await(ctx, "the API server", proc, healthy(config, p.server+"/readyz"))
}

func (p *ControlPlane) startManager(ctx context.Context) error {
	kubeconfig, err := p.certificates.kubeconfig("controller-manager", p.server, "system:kube-controller-manager")
	if err != nil {
		return err
	}
	at, err := p.listen(10257)
	if err != nil {
		return err
	}
	addr, file := netip.MustParseAddrPort(at), p.certificates.file
	proc, err := p.start("kube-controller-manager", "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig, "--bind-address="+addr.Addr().String(), "--secure-port="+strconv.Itoa(int(addr.Port())),
		"--service-account-private-key-file="+file("service-accounts.key"), "--root-ca-file="+file("ca.crt"),
		"--cluster-signing-cert-file="+file("ca.crt"), "--cluster-signing-key-file="+file("ca.key"),
		"--use-service-account-credentials", "--leader-elect=false", "--cert-dir="+filepath.Join(p.config.Dir, "controller-manager"))
	if err != nil {
		return err
	}
	// A service account is the first thing that every pod needs.
	return await(ctx, "the controller manager", proc, func(ctx context.Context) error {
		_, err := p.Kubectl(ctx, "-n", "default", "get", "serviceaccount", "default")
		return err
	})
}

// healthy returns a condition: a path answers with 200.
func healthy(config *rest.Config, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s: %s", url, res.Status, body)
		}
		return err
	}
}

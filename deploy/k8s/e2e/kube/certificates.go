package kube

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/quorate/quorate/internal/authority"
)

// validity is far more than a test takes.
const validity = 24 * time.Hour

// certificates are the control plane's: one authority signs all of them. Its files are in dir.
type certificates struct {
	dir       string
	authority *authority.Authority
}

func newCertificates(dir string) (*certificates, error) {
	now := time.Now()
	a, err := authority.New("kubernetes", now.Add(-time.Minute), now.Add(validity))
	if err != nil {
		return nil, err
	}
	c := &certificates{dir: dir, authority: a}
	return c, errors.Join(os.MkdirAll(dir, 0o700), c.write("ca", a.Pair()))
}

// file returns the path of a certificate, or of its key.
func (c *certificates) file(name string) string { return filepath.Join(c.dir, name) }

func (c *certificates) write(name string, p authority.Pair) error {
	return errors.Join(os.WriteFile(c.file(name+".crt"), p.Cert, 0o600), os.WriteFile(c.file(name+".key"), p.Key, 0o600))
}

// issue makes a pair that serves at hosts, or a client's pair if there are none.
func (c *certificates) issue(user string, groups, hosts []string) (authority.Pair, error) {
	now := time.Now()
	r := authority.Request{
		CommonName: user, Organizations: groups, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(validity),
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(hosts) > 0 {
		r.Usages = append(r.Usages, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			r.IPs = append(r.IPs, ip)
		} else {
			r.DNSNames = append(r.DNSNames, h)
		}
	}
	return c.authority.Issue(r)
}

// file pairs are named after who they are for.
func (c *certificates) issueTo(name, user string, groups, hosts []string) error {
	p, err := c.issue(user, groups, hosts)
	if err != nil {
		return err
	}
	return c.write(name, p)
}

// kubeconfig writes the file NAME.kubeconfig by which a user reaches the API server.
func (c *certificates) kubeconfig(name, server, user string, groups ...string) (string, error) {
	p, err := c.issue(user, groups, nil)
	if err != nil {
		return "", err
	}
	config := api.Config{
		Clusters:       map[string]*api.Cluster{"e2e": {Server: server, CertificateAuthorityData: c.authority.Pair().Cert}},
		AuthInfos:      map[string]*api.AuthInfo{user: {ClientCertificateData: p.Cert, ClientKeyData: p.Key}},
		Contexts:       map[string]*api.Context{"e2e": {Cluster: "e2e", AuthInfo: user}},
		CurrentContext: "e2e",
	}
	path := c.file(name + ".kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return path, nil
}

package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/authority"
)

const (
	certificateLife = 365 * 24 * time.Hour
	// clockSkew is how far other hosts' clocks may be behind.
	clockSkew = 5 * time.Minute

	certDirMode  = 0o700
	certFileMode = 0o600

	authorityCert, authorityKey = "ca.crt", "ca.key"
	pairCert, pairKey           = "tls.crt", "tls.key"
)

// certsConfig describes which certificates to make.
type certsConfig struct {
	dir, cluster          string
	nodes, clients, hosts []string
}

// newCerts makes certificates for trying TLS out.
func newCerts() *cobra.Command {
	var c certsConfig
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Create a small certificate authority and certificates from it, for trying out TLS",
		Long: "Create a small certificate authority and certificates from it, for trying out TLS.\n\n" +
			"DIR/ca.crt and DIR/ca.key are the authority, which is reused if it exists. Every node and client gets\n" +
			"a directory of its own with tls.crt, tls.key and ca.crt. All are valid for a year. Nothing is overwritten.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return makeCerts(&c, time.Now(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&c.dir, "dir", "", "directory for the files; required")
	f.StringVar(&c.cluster, "cluster", "quorate", "name of the cluster, as in cluster.name")
	f.StringSliceVar(&c.nodes, "node", nil, "node id, as in node_id; repeatable")
	f.StringSliceVar(&c.clients, "client", nil, "name of a client that gets a certificate; repeatable")
	f.StringSliceVar(&c.hosts, "host", nil, "host name or IP address at which clients reach the nodes, besides node ids and loopback; repeatable")
	return cmd
}

// validate returns all faults at once.
func (c *certsConfig) validate() error {
	var errs []error
	if c.dir == "" {
		errs = append(errs, errors.New("--dir is empty: name a directory for the files"))
	}
	if len(c.nodes)+len(c.clients) == 0 {
		errs = append(errs, errors.New("no --node and no --client: name at least one, for example --node n1 --node n2 --node n3"))
	}
	if err := certificate.CheckClusterName(c.cluster); err != nil {
		errs = append(errs, fmt.Errorf("--cluster: %w", err))
	}
	seen := map[string]bool{}
	for _, name := range append(append([]string{}, c.nodes...), c.clients...) {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\ \t\n") || strings.HasPrefix(name, "ca.") {
			errs = append(errs, fmt.Errorf("name %q cannot be a directory and a node id: use one without spaces and slashes", name))
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("name %q is given twice: names of nodes and clients must differ", name))
		}
		seen[name] = true
		if _, err := os.Lstat(filepath.Join(c.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s exists already: remove it, or choose another --dir", filepath.Join(c.dir, name)))
		}
	}
	return errors.Join(errs...)
}

// makeCerts makes an authority, or takes the one that is there, and a certificate for each node and
// client. Nodes get loopback names too, for trying out on one machine.
func makeCerts(c *certsConfig, now time.Time, out io.Writer) error {
	if err := c.validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, certDirMode); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	ca, err := c.authority(now, out)
	if err != nil {
		return err
	}
	for _, n := range c.nodes {
		r := authority.Request{
			CommonName: n, URIs: []*url.URL{certificate.Name(c.cluster, id.NodeID(n))},
			Usages:    []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
			NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLife),
		}
		for _, h := range append([]string{n, "localhost", "127.0.0.1", "::1"}, c.hosts...) {
			if ip := net.ParseIP(h); ip != nil {
				r.IPs = append(r.IPs, ip)
			} else if hostName(h) {
				r.DNSNames = append(r.DNSNames, h)
			}
		}
		if err := c.issue(ca, n, r, out); err != nil {
			return err
		}
	}
	for _, n := range c.clients {
		err := c.issue(ca, n, authority.Request{
			CommonName: n, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLife),
		}, out)
		if err != nil {
			return err
		}
	}
	return nil
}

// hostName reports whether a certificate can hold a name as a host name; a node id need not be one.
func hostName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// authority loads the authority of an earlier run, or makes one.
func (c *certsConfig) authority(now time.Time, out io.Writer) (*authority.Authority, error) {
	cert, key := filepath.Join(c.dir, authorityCert), filepath.Join(c.dir, authorityKey)
	var pair authority.Pair
	var errCert, errKey error
	pair.Cert, errCert = os.ReadFile(cert)
	pair.Key, errKey = os.ReadFile(key)
	switch noCert, noKey := errors.Is(errCert, fs.ErrNotExist), errors.Is(errKey, fs.ErrNotExist); {
	case noCert && noKey:
	case noCert || noKey:
		return nil, fmt.Errorf("of %s and %s one is missing: put it back, or choose another --dir", cert, key)
	default:
		if err := errors.Join(errCert, errKey); err != nil {
			return nil, err
		}
		return authority.Load(pair)
	}
	ca, err := authority.New("Quorate "+c.cluster, now.Add(-clockSkew), now.Add(certificateLife))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(writeNew(key, ca.Pair().Key), writeNew(cert, ca.Pair().Cert)); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(out, "authority  %s  until %s\n", cert, ca.NotAfter().UTC().Format(time.DateOnly))
	return ca, err
}

// issue writes a certificate with its key and the authority into a directory of its own. os.Mkdir
// fails if it exists: keys are never overwritten.
func (c *certsConfig) issue(ca *authority.Authority, name string, r authority.Request, out io.Writer) error {
	pair, err := ca.Issue(r)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, name)
	if err := os.Mkdir(dir, certDirMode); err != nil {
		return err
	}
	err = errors.Join(
		writeNew(filepath.Join(dir, pairCert), pair.Cert), writeNew(filepath.Join(dir, pairKey), pair.Key),
		writeNew(filepath.Join(dir, authorityCert), ca.Pair().Cert))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%-9s  %s\n", name, filepath.Join(dir, pairCert))
	return err
}

// writeNew writes a file that must not exist yet.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, certFileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// makeCerts has certificates made as docs/security.md says.
func makeCerts(t *testing.T, dir string, names ...string) {
	t.Helper()
	args := append([]string{"run", "../quickstart", "certs", "--cluster", "chaos", "--dir", dir}, names...)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// secureCluster starts three processes with TLS at both listeners.
func secureCluster(ctx context.Context, t *testing.T, binary, certs string) *chaos.Cluster {
	t.Helper()
	makeCerts(t, certs, "--node", "n1,n2,n3", "--client", "op")
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Settings: "log:\n  format: json\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	for _, n := range c.Nodes {
		files := fmt.Sprintf("{cert: %[1]s/tls.crt, key: %[1]s/tls.key, ca: %[1]s/ca.crt}", filepath.Join(certs, n.ID))
		name := filepath.Join(n.Dir, "node.yaml")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = fmt.Appendf(text, "tls:\n  peer: %s\n  client: %s\n", files, files)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// replace issues a node's pair anew, as a tool that renews certificates would.
func replace(t *testing.T, certs, node string) {
	t.Helper()
	dir := filepath.Join(certs, node)
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	makeCerts(t, certs, "--node", node)
}

// shownAt returns the certificate that a node shows to clients.
func shownAt(ctx context.Context, t *testing.T, address string) *x509.Certificate {
	t.Helper()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it served its purpose
	c, ok := conn.(*tls.Conn)
	if !ok {
		t.Fatalf("%T", conn)
	}
	return c.ConnectionState().PeerCertificates[0]
}

// Three processes with TLS: clients need a certificate, a node drains itself, new files
// are taken while it runs, and one with another node's certificate does not start.
func TestProcessesWithTLS(t *testing.T) {
	t.Parallel()
	binary, certs := build(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := secureCluster(ctx, t, binary, certs)
	last := c.Nodes[2]
	before := shownAt(ctx, t, last.Client)
	replace(t, certs, last.ID)

	t.Run("clients", func(t *testing.T) {
		secure := &client.TLS{
			CA: filepath.Join(certs, "ca.crt"), Cert: filepath.Join(certs, "op", "tls.crt"), Key: filepath.Join(certs, "op", "tls.key"),
		}
		cl, err := client.Dial(ctx, client.Config{Addresses: c.Addresses(), TLS: secure})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
			t.Fatal(err)
		}
		if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		for name, bad := range map[string]*client.TLS{
			"plain": nil, "no certificate": {CA: secure.CA}, "another authority": {Cert: secure.Cert, Key: secure.Key},
			"another name": {CA: secure.CA, Cert: secure.Cert, Key: secure.Key, ServerName: "n9"},
		} {
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			refused, err := client.Dial(short, client.Config{Addresses: c.Addresses(c.Nodes[0]), TLS: bad})
			cancel()
			if err == nil {
				refused.Close()
				t.Errorf("%s: the node answered", name)
			}
		}
	})
	t.Run("drain", func(t *testing.T) {
		n := c.Nodes[0]
		out, err := exec.CommandContext(ctx, binary, "drain", "--config", filepath.Join(n.Dir, "node.yaml"), "--timeout", "30s").CombinedOutput()
		if err != nil || n.Ready(ctx) == nil {
			t.Errorf("%v, ready %v\n%s", err, n.Ready(ctx), out)
		}
		op := filepath.Join(certs, "op")
		out, err = exec.CommandContext(ctx, binary, "drain", "--address", c.Nodes[1].Client, "--tls-ca", filepath.Join(certs, "ca.crt"),
			"--tls-cert", filepath.Join(op, "tls.crt"), "--tls-key", filepath.Join(op, "tls.key"), "--timeout", "30s").CombinedOutput()
		if err != nil {
			t.Errorf("from elsewhere: %v\n%s", err, out)
		}
	})
	t.Run("another node's certificate", func(t *testing.T) {
		n := c.Nodes[1]
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
		said := fails(t, binary, "node", "--config", filepath.Join(n.Dir, "node.yaml"), "--tls.peer.cert", filepath.Join(certs, "n1", "tls.crt"),
			"--tls.peer.key", filepath.Join(certs, "n1", "tls.key"), "--tls.client.key", filepath.Join(certs, "none"), "--log.level", "loud")
		for _, want := range []string{`names node "n1" where node "n2" was expected`, "tls.client.key: stat ", "log.level"} {
			if !strings.Contains(said, want) {
				t.Errorf("lacks %q:\n%s", want, said)
			}
		}
	})
	after := before
	for after.Equal(before) {
		time.Sleep(50 * time.Millisecond) // until ctx ends, and the dial with it
		after = shownAt(ctx, t, last.Client)
	}
	text, _, err := get(ctx, t, "http://"+last.HTTP+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	end := regexp.MustCompile(`quorate_tls_certificate_expiry_timestamp_seconds\{listener="client"\} (\S+)`).FindStringSubmatch(text)
	if end == nil || !strings.Contains(text, `{listener="peer"}`) {
		t.Fatalf("the ends of the certificates are not in %s", text)
	}
	if got, err := strconv.ParseFloat(end[1], 64); err != nil || int64(got) != after.NotAfter.Unix() {
		t.Errorf("the certificate ends at %s, %v, want %d", end[1], err, after.NotAfter.Unix())
	}
}

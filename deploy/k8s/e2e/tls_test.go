//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/deploy/k8s/e2e/kube"
)

// gossipKeyBytes is the length of a gossip key.
const gossipKeyBytes = 32

// The overlay tls does on a cluster what docs/kubernetes.md says: nodes and clients speak TLS, a rollout restart loses nothing,
// and a renewed certificate comes into use without a restart.
func TestTLSOverlay(t *testing.T) { kube.Inside(t, tlsOverlay) }

func tlsOverlay(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s := &secured{deployment: prepare(ctx, t), certs: filepath.Join(t.TempDir(), "certs")}
	s.secrets()
	s.kubectl("apply", "-k", filepath.Join(root, "deploy/k8s/overlays/tls"))
	s.rolledOut()
	s.tls = &client.TLS{CA: filepath.Join(s.certs, "ca.crt"), ServerName: "quorate.quorate.svc"}
	c := s.dial(s.serviceAddress() + ":7070")
	defer c.Close()
	l := newLoad(ctx, t, c)
	s.available()
	begin := time.Now()
	pause := l.during(s.restart)
	t.Logf("FIGURE rollout restart with TLS: %v, longest time without a confirm %v", time.Since(begin).Round(10*time.Millisecond), pause.Round(time.Millisecond))
	s.renewed(l)
	l.finish()
}

// secured is a deployment whose certificates are files of this test.
type secured struct {
	*deployment
	certs string
}

// certificates makes those of nodes that have none yet, by the authority that the first call makes.
func (s *secured) certificates(nodes ...string) {
	s.t.Helper()
	args := []string{
		"certs", "--dir", s.certs, "--cluster", "quorate", "--node", strings.Join(nodes, ","),
		"--host", "*.quorate-headless", "--host", "quorate", "--host", "quorate.quorate.svc",
	}
	if out, err := exec.CommandContext(s.ctx, filepath.Join(programs(s.t), "quickstart"), args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// secret is the manifest of a Secret with a node's pair.
func (s *secured) secret(name, node string) string {
	s.t.Helper()
	text := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\ndata:\n"
	for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
		content, err := os.ReadFile(filepath.Join(s.certs, node, file))
		if err != nil {
			s.t.Fatal(err)
		}
		text += "  " + file + ": " + base64.StdEncoding.EncodeToString(content) + "\n"
	}
	return text
}

// secrets makes all that the overlay needs.
func (s *secured) secrets() {
	s.t.Helper()
	s.certificates("quorate-0", "quorate-1", "quorate-2")
	key := make([]byte, gossipKeyBytes)
	_, _ = rand.Read(key) // never fails
	s.kubectl("create", "secret", "generic", "quorate-gossip", "--from-literal=gossip-key="+base64.StdEncoding.EncodeToString(key))
	s.kubectl("create", "secret", "generic", "quorate-default-user", "--from-literal=username="+s.user, "--from-literal=password="+s.password)
	var all strings.Builder
	for i := range replicas {
		all.WriteString(s.secret(fmt.Sprintf("quorate-%d-peer-tls", i), fmt.Sprintf("quorate-%d", i)))
	}
	all.WriteString(s.secret("quorate-client-tls", "quorate-0"))
	s.apply(all.String())
}

// shown is the certificate that the first pod shows to clients.
func (s *secured) shown() ([]byte, error) {
	at := s.kubectl("get", "pod", "quorate-0", "-o", "jsonpath={.status.podIP}") + ":7070"
	conn, err := (&tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, NextProtos: []string{"h2"},
	}}).DialContext(s.ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // only looked at
	secure, is := conn.(*tls.Conn)
	if !is || len(secure.ConnectionState().PeerCertificates) == 0 {
		return nil, errors.New("no certificate is shown")
	}
	return secure.ConnectionState().PeerCertificates[0].Raw, nil
}

// renewed replaces the pair of one node, for clients and for peers, and waits until the node shows the new one.
func (s *secured) renewed(l *load) {
	s.t.Helper()
	before, err := s.shown()
	if err != nil {
		s.t.Fatal(err)
	}
	pods := s.pods()
	if err := os.RemoveAll(filepath.Join(s.certs, "quorate-0")); err != nil {
		s.t.Fatal(err)
	}
	s.certificates("quorate-0")
	begin := time.Now()
	pause := l.during(func() {
		s.apply(s.secret("quorate-client-tls", "quorate-0") + s.secret("quorate-0-peer-tls", "quorate-0"))
		s.poll("a new certificate is shown", func() error {
			now, err := s.shown()
			if err == nil && bytes.Equal(now, before) {
				err = errors.New("it is the former one")
			}
			return err
		})
	})
	s.t.Logf("FIGURE a renewed certificate is in use: %v, longest time without a confirm %v", time.Since(begin).Round(time.Second), pause.Round(time.Millisecond))
	s.replaced(pods, 0)
}

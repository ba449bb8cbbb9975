package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/internal/authority"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// secureFiles writes an authority, and the pairs that it has issued under their names.
func secureFiles(t *testing.T, dir string, pairs map[string]authority.Request) {
	t.Helper()
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca, err := authority.New("ca", begin, end)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{"ca.crt": ca.Pair().Cert}
	for name, r := range pairs {
		r.NotBefore, r.NotAfter = begin, end
		pair, err := ca.Issue(r)
		if err != nil {
			t.Fatal(err)
		}
		all[name+".crt"], all[name+".key"] = pair.Cert, pair.Key
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A client trusts the authorities that it was given, checks the node's name, and shows a
// certificate.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	secureFiles(t, dir, map[string]authority.Request{
		"node":   {DNSNames: []string{"node.example"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		"client": {Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	})
	pair, err := tls.LoadX509KeyPair(file("node.crt"), file("node.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := readAuthorities(file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	})))
	f := &faultyNode{storage: &storage{seen: map[string]uint64{}}}
	brokerv1.RegisterAdminServer(server, statusAdmin{})
	brokerv1.RegisterBrokerServer(server, f)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name string
		tls  *TLS
		want string // "": it works
	}{
		{"all set", &TLS{CA: file("ca.crt"), Cert: file("client.crt"), Key: file("client.key"), ServerName: "node.example"}, ""},
		{"wrong name", &TLS{CA: file("ca.crt"), Cert: file("client.crt"), Key: file("client.key")}, "cannot validate certificate for 127.0.0.1"},
		{"unknown authority", &TLS{Cert: file("client.crt"), Key: file("client.key"), ServerName: "node.example"}, "unknown authority"},
		{"no certificate", &TLS{CA: file("ca.crt"), ServerName: "node.example"}, "no node answers"},
		{"no key", &TLS{CA: file("ca.crt"), Cert: file("client.crt")}, "set both, or none"},
		{"no such files", &TLS{CA: file("nix"), Cert: file("client.crt"), Key: file("nix")}, "client: TLS certificate " + file("client.crt")},
	} {
		config := Config{Addresses: []string{l.Addr().String()}, TLS: c.tls, FixedAddresses: true}
		if c.want != "" {
			refused(t, c.name, config, c.want)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cl, err := Dial(ctx, config)
		cancel()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		cl.Close()
	}
}

// refused checks that no client comes to be, and why. A client tries until its time is up, and may not have got as far as
// the reason on a busy machine: then it gets more time.
func refused(t *testing.T, name string, config Config, why string) {
	t.Helper()
	for wait := 500 * time.Millisecond; ; wait *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		cl, err := Dial(ctx, config)
		cancel()
		switch {
		case err == nil:
			cl.Close()
			t.Errorf("%s: no error, want %q", name, why)
			return
		case strings.Contains(err.Error(), why):
			return
		case wait > 20*time.Second:
			t.Errorf("%s: error %v, want %q", name, err, why)
			return
		}
	}
}

// statusAdmin answers the call that Dial makes.
type statusAdmin struct {
	brokerv1.UnimplementedAdminServer
}

func (statusAdmin) ClusterStatus(context.Context, *brokerv1.ClusterStatusRequest) (*brokerv1.ClusterStatusResponse, error) {
	return &brokerv1.ClusterStatusResponse{}, nil
}

//go:build linux

package attack

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/authority"
)

// The bounds of the nodes that are attacked: lower than the defaults, so that few connections reach them.
const (
	maxUnauthenticated = 400
	bounds             = "limits:\n  unauthenticated: 400\ntimeouts:\n  login: 3s\n"
	// unauthenticatedBytes is what one that says nothing may cost.
	unauthenticatedBytes = 64 << 10
	// noise is by how much a node's memory grows by what it does for others meanwhile.
	noise = 96 << 20
)

// greeting begins a connection of HTTP/2; nothing follows it.
const greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// Connections that say nothing, or no more than how they begin, are few, cost little, and end; others come in meanwhile.
func TestSilentConnections(t *testing.T) {
	v := attacked(t, bounds)
	h := v.behave(1000)
	h.more(10)
	v.forgetPeak()
	before := v.peak()
	c := v.crowd()
	c.come(800, v.node.Client, nil)
	c.come(400, v.node.Client, []byte(greeting))
	c.come(400, v.node.AMQP, nil)
	c.come(400, v.node.AMQP, []byte("AMQP\x00\x00\x09\x01"))
	others := v.crowd() // whose time is longer
	others.come(400, v.node.HTTP, []byte("GET /health/live HTTP/1.1\r\n"))
	others.come(400, v.node.Peer, []byte(greeting))
	others.come(400, v.node.Gossip, nil)
	if n := v.figure(`quorate_gate_unauthenticated{gate="clients"}`); n > maxUnauthenticated {
		t.Errorf("%v have not logged in", n)
	}
	if n := v.descriptors(); n > maxUnauthenticated+256+256+128+100 {
		t.Errorf("%d file descriptors", n)
	}
	for range 3 { // who comes now gets in
		v.behave(1000).more(1)
	}
	h.more(50)
	if grown := v.peak() - before; grown > maxUnauthenticated*unauthenticatedBytes+noise {
		t.Errorf("they took %d KiB", grown>>10)
	} else {
		t.Logf("memory grew by %d KiB", grown>>10)
	}
	c.ended()
	h.end()
	if v.figure(`quorate_gate_crowded_out_total{gate="clients"}`) == 0 || v.figure(`quorate_gate_late_total{gate="clients"}`) == 0 {
		t.Error("nobody was turned away")
	}
}

// tlsFiles are those of a client and of the node.
type tlsFiles struct{ ca, cert, key string }

func (f *tlsFiles) client() *client.TLS { return &client.TLS{CA: f.ca, Cert: f.cert, Key: f.key} }

// attackedTLS starts a node that clients reach by TLS alone, with certificates of theirs.
func attackedTLS(t *testing.T, settings string) (*victim, *tlsFiles) {
	t.Helper()
	dir := t.TempDir()
	a, err := authority.New("attack", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair, err := a.Issue(authority.Request{
		CommonName: "both", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &tlsFiles{write("ca.crt", a.Pair().Cert), write("tls.crt", pair.Cert), write("tls.key", pair.Key)}
	return attacked(t, settings+fmt.Sprintf("tls:\n  client:\n    cert: %s\n    key: %s\n    ca: %s\n", f.cert, f.key, f.ca)), f
}

// The same over TLS, where clients show certificates: neither silence nor half a handshake keeps others out.
func TestSilentTLS(t *testing.T) {
	t.Parallel()
	v, files := attackedTLS(t, bounds)
	dial := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		cl, err := client.Dial(ctx, client.Config{Addresses: []string{v.node.Client}, FixedAddresses: true, TLS: files.client()})
		if err != nil {
			return err
		}
		defer cl.Close()
		_, err = cl.DeclareQueue(ctx, client.Queue{Name: "q"})
		return err
	}
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	c := v.crowd()
	c.come(600, v.node.Client, nil)
	c.come(600, v.node.Client, []byte{22, 3, 1, 2, 0, 1}) // the head of a handshake
	if err := dial(); err != nil {
		t.Error(err)
	}
	if _, err := v.page("/health/live"); err != nil {
		t.Error(err)
	}
	c.ended()
}

// Many who behave well come at once from one address, as after a restart of their node: they
// get in one after the other.
func TestEverybodyComesBack(t *testing.T) {
	t.Parallel()
	v := attacked(t, "limits:\n  unauthenticated: 80\n") // 20 of an address
	const clients = 200
	var all sync.WaitGroup
	errs := make([]error, clients)
	for i := range clients {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
			defer cancel()
			cl, err := client.Dial(ctx, client.Config{Addresses: []string{v.node.Client}, FixedAddresses: true})
			if err == nil {
				_, err = cl.DeclareQueue(ctx, client.Queue{Name: "q"})
				cl.Close()
			}
			errs[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

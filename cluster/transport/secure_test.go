package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/authority"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// keyMaterial is what a node has at the moment; tests change it while the node runs.
type keyMaterial struct {
	own         tls.Certificate
	authorities *x509.CertPool
}

// source hands material to a Mux.
type source struct{ atomic.Pointer[keyMaterial] }

func (s *source) current() (tls.Certificate, *x509.CertPool) {
	m := s.Load()
	return m.own, m.authorities
}

func newAuthority(t testing.TB, name string) *authority.Authority {
	t.Helper()
	a, err := authority.New(name, time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func poolOf(t testing.TB, all ...*authority.Authority) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, a := range all {
		if !pool.AppendCertsFromPEM(a.Pair().Cert) {
			t.Fatal("no certificate")
		}
	}
	return pool
}

// request is for a certificate that is right for the node n of the cluster "test".
func request(n id.NodeID) authority.Request {
	return authority.Request{
		CommonName: string(n), URIs: []*url.URL{certificate.Name("test", n)},
		Usages:    []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func issue(t testing.TB, a *authority.Authority, r authority.Request) tls.Certificate {
	t.Helper()
	pair, err := a.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// secureConfig is testConfig with TLS instead of a key.
func secureConfig(t testing.TB, name string, a *authority.Authority) (Config, *source) {
	t.Helper()
	c := testConfig(name, 1)
	c.Key = nil
	s := &source{}
	s.Store(&keyMaterial{issue(t, a, request(c.Node)), poolOf(t, a)})
	c.TLS = s.current
	return c, s
}

// Nodes with certificates of one authority talk, both ways, over all kinds of calls.
func TestTLS(t *testing.T) {
	ca := newAuthority(t, "ca")
	conf1, _ := secureConfig(t, "n1", ca)
	conf2, _ := secureConfig(t, "n2", ca)
	conf2.Calls = &statusCalls{}
	a, b := start(t, conf1), start(t, conf2)
	b.recorder.request = func(_ Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error) {
		if err := reply(answerFrame(f.GetQueueCommand().GetRequest())); err != nil {
			t.Error(err)
		}
	}
	meet(a, b)
	connected(t, a, b)
	connected(t, b, a)
	if err := a.Send("n2", queueFrame(7, 1<<20)); err != nil {
		t.Fatal(err)
	}
	until(t, "the answer came", func() bool { n, _ := a.recorder.count(); return n == 1 })
	client, err := a.Client("n2")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := client.NodeStatus(t.Context(), &nodev1.NodeStatusRequest{}); err != nil || r.GetNode() != "called by n1/1" {
		t.Errorf("%v, %v", r, err)
	}
}

// Both ends check each other: whoever finds the fault logs it once, by name and with its
// remedy, the other one where to look; and nothing gets through.
func TestTLSRefused(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other ca")
	changed := func(n id.NodeID, change func(*authority.Request)) tls.Certificate {
		r := request(n)
		change(&r)
		return issue(t, ca, r)
	}
	expired := changed("n2", func(r *authority.Request) { r.NotAfter = time.Now().Add(-time.Minute) })
	for _, c := range []struct {
		name    string
		own     tls.Certificate // of n2, which is the acceptor and the dialer
		wantOf1 string          // what n1 says as dialer
		logged1 string          // what n1 says as acceptor; "": the same text
	}{
		{
			name: "wrong authority", own: issue(t, other, request("n2")),
			wantOf1: `certificate "quorate://test/node/n2" was issued by "other ca", which is none of the authorities known here`,
		},
		{name: "expired", own: expired, wantOf1: `certificate "quorate://test/node/n2" expired at `},
		{
			name: "not yet valid", own: changed("n2", func(r *authority.Request) { r.NotBefore = time.Now().Add(time.Minute) }),
			wantOf1: `certificate "quorate://test/node/n2" is not valid before `,
		},
		{
			name: "name of another node", own: issue(t, ca, request("n3")),
			wantOf1: `certificate "quorate://test/node/n3" names node "n3" where node "n2" was expected: give every node its own certificate, with the URI quorate://test/node/n2`,
			logged1: `a call in the name of node \"n2\": certificate`,
		},
		{
			name: "another cluster", own: changed("n2", func(r *authority.Request) { r.URIs = []*url.URL{certificate.Name("prod", "n2")} }),
			wantOf1: `certificate "quorate://prod/node/n2" is of cluster "prod", this one is "test": issue it with the URI quorate://test/node/n2`,
			logged1: `is of cluster \"prod\", this one is \"test\"`,
		},
		{
			name: "no name", own: changed("n2", func(r *authority.Request) { r.URIs, r.DNSNames = nil, []string{"n2"} }),
			wantOf1: `certificate "n2" names 0 nodes: issue it with exactly one URI quorate://test/node/n2 as subject alternative name`,
			logged1: `certificate \"n2\" names 0 nodes`,
		},
		{
			name: "not for servers", own: changed("n2", func(r *authority.Request) { r.Usages = r.Usages[:1] }),
			wantOf1: `is not for serverAuth: issue it with the extended key usages clientAuth and serverAuth`, logged1: "-",
		},
		{
			name: "not for clients", own: changed("n2", func(r *authority.Request) { r.Usages = r.Usages[1:] }),
			wantOf1: "", logged1: `is not for clientAuth: issue it with the extended key usages clientAuth and serverAuth`,
		},
		{
			name: "no usage", own: changed("n2", func(r *authority.Request) { r.Usages = nil }),
			wantOf1: `is not for serverAuth`, logged1: `is not for clientAuth`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logged lines
			conf1, _ := secureConfig(t, "n1", ca)
			conf1.Logger = logged.logger()
			conf2, material := secureConfig(t, "n2", ca)
			a, b := start(t, conf1), start(t, conf2)
			material.Store(&keyMaterial{c.own, poolOf(t, ca)}) // it was good at the start
			last := func(n *node) string { return n.Stats().Peers[0].LastError }

			b.SetPeer("n1", a.address) // n1 accepts
			if c.logged1 != "-" {
				said := `certificate of node "n2" (tls: bad certificate): the log of node "n1" says why`
				if c.name == "name of another node" {
					said = `a call in the name of node "n2"`
				}
				until(t, "n2 was refused twice", func() bool { return b.lookup("n1").failure.Load() >= 2 })
				if got := last(b); !strings.Contains(got, said) {
					t.Errorf("n2 says\n%s\nwant\n%s", got, said)
				}
				until(t, "two refusals are counted", func() bool { return a.Stats().Refused >= 2 })
				want := c.logged1
				if want == "" {
					want = strings.ReplaceAll(c.wantOf1, `"`, `\"`)
				}
				if n := logged.containing(want); n != 1 {
					t.Errorf("n1 logged %q %d times, want once:\n%s", want, n, logged.kept())
				}
			}
			if _, up := b.Connected("n1"); up && c.logged1 != "-" {
				t.Error("n2 is connected")
			}

			a.SetPeer("n2", b.address) // n1 dials
			if c.wantOf1 != "" {
				until(t, "n1 refused twice", func() bool { return a.lookup("n2").failure.Load() >= 2 })
				if got := last(a); !strings.Contains(got, `node "n2" at `+b.address) || !strings.Contains(got, c.wantOf1) {
					t.Errorf("n1 says\n%s\nwant\n%s", got, c.wantOf1)
				}
				said := "do not accept each other"
				if c.name == "name of another node" {
					said = "cannot reach the peer" // its address may be right in a moment
				}
				if n := logged.containing(said); n != 1 {
					t.Errorf("logged %d times, want once:\n%s", n, logged.kept())
				}
			}
			if logged.containing("PRIVATE") != 0 {
				t.Error("a key is in the log")
			}
			if events := a.recorder.log(); len(events) != 0 && c.logged1 != "-" && c.wantOf1 != "" {
				t.Errorf("n1 was told %v", events)
			}
		})
	}
}

// A node with TLS and one without say so, whoever dials.
func TestPlainAgainstTLS(t *testing.T) {
	var logSecure, logPlain lines
	conf1, _ := secureConfig(t, "n1", newAuthority(t, "ca"))
	conf1.Logger = logSecure.logger()
	conf2 := testConfig("n2", 1)
	conf2.Key, conf2.Logger = nil, logPlain.logger()
	secure, plain := start(t, conf1), start(t, conf2)
	meet(secure, plain)
	for _, c := range []struct {
		n    *node
		want string
	}{
		{secure, `" does not speak TLS, node "n1" does: set tls.peer.cert, tls.peer.key and tls.peer.ca on all nodes of the cluster, or on none`},
		{plain, ` speaks TLS, node "n2" does not: set tls.peer.cert`},
	} {
		until(t, "it was refused three times", func() bool { return c.n.Stats().Peers[0].Failures >= 3 })
		if got := c.n.Stats().Peers[0].LastError; !strings.Contains(strings.ReplaceAll(got, " at "+plain.address, `"`), c.want) && !strings.Contains(got, c.want) {
			t.Errorf("%s says\n%s\nwant\n%s", c.n.config.Node, got, c.want)
		}
	}
	for _, c := range []struct {
		log  *lines
		want string
	}{{&logSecure, "a caller speaks without TLS"}, {&logPlain, "a caller speaks TLS"}} {
		until(t, "the acceptor logs it", func() bool { return c.log.containing(c.want) > 0 })
		if n := c.log.containing(c.want); n != 1 {
			t.Errorf("%q logged %d times, want once", c.want, n)
		}
	}
}

// Unauthenticated clients without a certificate, with an older TLS, or who say nothing, get nowhere.
func TestOutsiders(t *testing.T) {
	ca := newAuthority(t, "ca")
	conf, _ := secureConfig(t, "n1", ca)
	var logged lines
	conf.Logger = logged.logger()
	a := start(t, conf)
	good := issue(t, ca, request("n2"))
	for name, c := range map[string]struct {
		config *tls.Config
		log    string
	}{
		"no certificate": {&tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{"h2"}}, "provide a certificate"},
		"TLS 1.2": {
			&tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{good}},
			"unsupported versions",
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient("passthrough:///"+a.address, grpc.WithTransportCredentials(credentials.NewTLS(c.config)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // of a test that is over
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if r, err := nodev1.NewNodeClient(conn).NodeStatus(ctx, &nodev1.NodeStatusRequest{}); err == nil || ctx.Err() != nil {
				t.Errorf("answered %v, %v", r, err)
			}
			until(t, "it is logged", func() bool { return logged.containing(c.log) == 1 })
		})
	}
	// Probes of the port are not worth a line.
	before := logged.kept()
	probe, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.address)
	if err != nil || probe.Close() != nil {
		t.Fatal(err)
	}
	b, _ := secureConfig(t, "n2", ca)
	n2 := start(t, b)
	n2.SetPeer("n1", a.address)
	connected(t, n2, a)
	if now := logged.kept(); len(now) != len(before) {
		t.Errorf("logged %v", now[len(before):])
	}
}

// New material counts from the next connection on; connections that are up stay.
func TestTLSRotation(t *testing.T) {
	old, next := newAuthority(t, "old"), newAuthority(t, "next")
	conf1, m1 := secureConfig(t, "n1", old)
	conf2, m2 := secureConfig(t, "n2", old)
	a, b := start(t, conf1), start(t, conf2)
	a.SetPeer("n2", b.address)
	connected(t, a, b)
	connects := func() uint64 { return a.Stats().Peers[0].Connects }
	for i, step := range []struct {
		own   *authority.Authority
		trust *x509.CertPool
	}{
		{old, poolOf(t, old, next)},
		{next, poolOf(t, old, next)},
		{next, poolOf(t, next)},
	} {
		m1.Store(&keyMaterial{issue(t, step.own, request("n1")), step.trust})
		m2.Store(&keyMaterial{issue(t, step.own, request("n2")), step.trust})
		if _, up := a.Connected("n2"); !up || connects() != uint64(i+1) {
			t.Fatalf("step %d: up %v after %d connects: the connection did not stay", i, up, connects())
		}
		addresses := []string{newRelay(t, b.address).address, b.address}
		a.SetPeer("n2", addresses[i%2]) // another address: a new connection
		until(t, "the connection came up again", func() bool { _, up := a.Connected("n2"); return up && connects() == uint64(i+2) })
	}
	if a.Stats().Peers[0].Failures != 0 && a.Stats().Refused+b.Stats().Refused != 0 {
		t.Errorf("refused on the way: %+v", a.Stats())
	}
}

// A node does not start with a certificate that no peer would take.
func TestWrongCertificateAtStart(t *testing.T) {
	ca := newAuthority(t, "ca")
	conf, s := secureConfig(t, "n1", ca)
	s.Store(&keyMaterial{issue(t, ca, request("n2")), poolOf(t, ca)})
	conf.Handler = &recorder{}
	if _, err := New(conf); err == nil || !strings.Contains(err.Error(), `TLS: certificate "quorate://test/node/n2" names node "n2" where node "n1"`) {
		t.Errorf("error %v", err)
	}
}

package amqp_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/authority"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// certificate returns a new certificate for a name.
func certificate(t *testing.T, a *authority.Authority, name string, usage x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	pair, err := a.Issue(authority.Request{
		CommonName: name, DNSNames: []string{"localhost"}, Usages: []x509.ExtKeyUsage{usage},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Over TLS, a client can log in with a certificate that names a user, and with no other.
func TestExternal(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	a, err := authority.New("clients", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Pair().Cert)
	_, address := serve(t, c, amqp.Config{
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate(t, a, "server", x509.ExtKeyUsageServerAuth)},
			ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
		},
		CertificateUser: func(c *x509.Certificate) (string, error) { return c.Subject.CommonName, nil },
	})
	dialTLS := func(t *testing.T, own ...tls.Certificate) (*peer, string) {
		p := dial(t, address)
		p.nc = tls.Client(p.nc, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: "localhost", Certificates: own})
		p.write([]byte(wire.ProtocolHeader))
		return p, want[*wire.ConnectionStart](p).Mechanisms
	}
	capable := message.Table{{Name: "capabilities", Value: message.TableValue(message.Table{
		{Name: "authentication_failure_close", Value: message.Bool(true)},
	})}}
	t.Run("named", func(t *testing.T) {
		p, offered := dialTLS(t, certificate(t, a, "guest", x509.ExtKeyUsageClientAuth))
		if offered != "PLAIN AMQPLAIN EXTERNAL" {
			t.Error(offered)
		}
		p.send(0, &wire.ConnectionStartOK{Mechanism: "EXTERNAL", Locale: "en_US"})
		want[*wire.ConnectionTune](p)
		p.send(0, &wire.ConnectionTuneOK{})
		p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
		want[*wire.ConnectionOpenOK](p)
	})
	t.Run("unknown", func(t *testing.T) {
		p, _ := dialTLS(t, certificate(t, a, "nobody", x509.ExtKeyUsageClientAuth))
		p.send(0, &wire.ConnectionStartOK{Mechanism: "EXTERNAL", ClientProperties: capable})
		if text := p.closed(wire.AccessRefused, 0); !strings.Contains(text, "mechanism EXTERNAL") {
			t.Error(text)
		}
	})
	t.Run("without", func(t *testing.T) {
		p, offered := dialTLS(t)
		if offered != "PLAIN AMQPLAIN" {
			t.Error(offered)
		}
		p.send(0, &wire.ConnectionStartOK{Mechanism: "EXTERNAL", ClientProperties: capable})
		p.closed(wire.CommandInvalid, wire.ConnectionStartOKID)
	})
}

// A server reports the name of its cluster.
func TestClusterName(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := dial(t, c.AMQP(0))
	p.write([]byte(wire.ProtocolHeader))
	start := want[*wire.ConnectionStart](p)
	if name, ok := start.ServerProperties.Get("cluster_name"); !ok || name != message.String("test") {
		t.Errorf("%+v", start.ServerProperties)
	}
}

// AMQPLAIN logs in, and connection.update-secret of a catalog user accepts any secret (AM-11).
func TestSecrets(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	p := dial(t, c.AMQP(0))
	p.start()
	response := wire.AppendMethod(nil, 0, &wire.ConnectionStartOK{ClientProperties: message.Table{
		{Name: "LOGIN", Value: message.String("guest")}, {Name: "PASSWORD", Value: message.String("guest")},
	}})
	table := response[7+4+4 : len(response)-1-1-4-1] // what is between the ids with the table's size, and empty strings
	p.send(0, &wire.ConnectionStartOK{Mechanism: "AMQPLAIN", Response: string(table)})
	want[*wire.ConnectionTune](p)
	p.send(0, &wire.ConnectionTuneOK{})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "/"})
	want[*wire.ConnectionOpenOK](p)
	p.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](p)
	for _, secret := range []string{"guest", "gast", ""} { // AM-11
		p.send(0, &wire.ConnectionUpdateSecret{NewSecret: secret, Reason: "why not"})
		want[*wire.ConnectionUpdateSecretOK](p)
	}
	p.send(1, &wire.QueueDeclare{Queue: "q", Durable: true})
	want[*wire.QueueDeclareOK](p)
}

// After some wrong passwords in a short time, more are refused unchecked. A client whose password
// is known to be right can still log in from the same address.
func TestWrongPasswordsAtSpeed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	connect(t, c.AMQP(0)) // its password is known to be right now
	for i := range 3 * identity.LoginBurst {
		p := dial(t, c.AMQP(0))
		p.login(fmt.Sprint(i))
		x := want[*wire.ConnectionClose](p)
		if code := wire.ReplyCode(x.ReplyCode); code != wire.AccessRefused && code != wire.ResourceError {
			t.Fatalf("%+v", x)
		}
		_ = p.nc.Close()
	}
	if n := c.Broker(0).Counters(); n.LoginsRefused < identity.LoginBurst || n.LoginsUnseen == 0 {
		t.Errorf("%+v", n)
	}
	connect(t, c.AMQP(0))
}

// A connection that logs in and then opens no vhost counts towards its user's limit only while it
// lasts (VH-4).
func TestCountsEndWithHandshake(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	open := c.Cluster(0).Clients()
	p := dial(t, c.AMQP(0))
	p.login("guest")
	want[*wire.ConnectionTune](p)
	p.send(0, &wire.ConnectionTuneOK{})
	p.send(0, &wire.ConnectionOpen{VirtualHost: "nowhere"})
	p.closed(wire.NotAllowed, wire.ConnectionOpenID)
	testcluster.Poll(t, "the connection does not count any more", func() error {
		if n := open.Usage("guest", "", 0).UserConnections; n != 0 {
			return fmt.Errorf("%d count", n)
		}
		return nil
	})
}

// A connection counts as one of its user from the login on, whether it opens a vhost or not (VH-4).
func TestCountsFromLogin(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 1)
	if err := c.Broker(0).Administration.SetUserLimits(all(t), "guest", userLimits("max-connections", 1)); err != nil {
		t.Fatal(err)
	}
	first, second := dial(t, c.AMQP(0)), dial(t, c.AMQP(0))
	first.login("guest")
	want[*wire.ConnectionTune](first)
	second.login("guest")
	want[*wire.ConnectionTune](second)
	second.send(0, &wire.ConnectionTuneOK{})
	second.closed(wire.NotAllowed, wire.ConnectionOpenID)
}

package config

import (
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/authority"
)

// Half a setting is a fault: it must not end in plain text.
func TestTLSSettings(t *testing.T) {
	for settings, want := range map[string][]string{
		"":                        nil,
		"QUORATE_TLS__PEER__CA=a": {`tls.peer.cert is "", but tls.peer.ca is set`, `tls.peer.key is "", but tls.peer.ca is set`},
		"QUORATE_TLS__PEER__CERT=a QUORATE_TLS__PEER__KEY=b":     {`tls.peer.ca is "", but tls.peer.cert is set`},
		"QUORATE_TLS__CLIENT__KEY=a":                             {`tls.client.cert is ""`},
		"QUORATE_TLS__CLIENT__CA=a":                              {`tls.client.cert is "", but tls.client.ca is set`, `tls.client.key is ""`},
		"QUORATE_TLS__CLIENT__CERT=a QUORATE_TLS__CLIENT__KEY=b": nil,
		"QUORATE_TLS__PEER__CERT=a QUORATE_TLS__PEER__KEY=b QUORATE_TLS__PEER__CA=c QUORATE_TLS__CLIENT__CERT=d": {`tls.client.key is "", but tls.client.cert is set`},
		"QUORATE_TLS__CLIENT__AUTH=maybe":    {`tls.client.auth is "maybe": use none, optional or required`},
		"QUORATE_TLS__CLIENT__AUTH=optional": {`tls.client.auth is optional: set tls.client.ca too`},
		"QUORATE_TLS__CLIENT__CERT=a QUORATE_TLS__CLIENT__KEY=b QUORATE_TLS__CLIENT__AUTH=required":                                                               {`tls.client.auth is required: set tls.client.ca too`},
		"QUORATE_TLS__CLIENT__CERT=a QUORATE_TLS__CLIENT__KEY=b QUORATE_TLS__CLIENT__AUTH=none":                                                                   nil,
		"QUORATE_TLS__CLIENT__CERT=a QUORATE_TLS__CLIENT__KEY=b QUORATE_TLS__CLIENT__CA=c QUORATE_TLS__CLIENT__AUTH=optional":                                     nil,
		"QUORATE_TLS__CLIENT__CERT=a QUORATE_TLS__CLIENT__KEY=b QUORATE_TLS__CLIENT__CA=c QUORATE_TLS__CLIENT__AUTH=none QUORATE_TLS__CLIENT__LOGIN_FROM=san_dns": {`tls.client.login_from is san_dns, but tls.client.auth is none`},
		"QUORATE_TLS__PEER__AUTH=optional": {`there is no setting "tls.peer.auth"`},
		"QUORATE_HTTP__TLS=true":           {`http.tls is true without tls.client.cert`},
		"QUORATE_TLS__PEER__CRT=a":         {`did you mean "tls.peer.cert"`},
	} {
		_, err := Load("", strings.Fields(settings+" QUORATE_NODE_ID=n1 QUORATE_CLUSTER__ADMISSION=open"), nil)
		if want == nil && err != nil {
			t.Errorf("%q: %v", settings, err)
		}
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%q: error lacks %q:\n%v", settings, w, err)
			}
		}
	}
}

// files writes a node's pair and its authority.
func files(t *testing.T, cluster string, n id.NodeID, usages ...x509.ExtKeyUsage) TLSFiles {
	t.Helper()
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca, err := authority.New("ca", begin, end)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(authority.Request{
		URIs: []*url.URL{certificate.Name(cluster, n)}, Usages: usages, NotBefore: begin, NotAfter: end,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := TLSFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	for name, text := range map[string][]byte{out.Cert: pair.Cert, out.Key: pair.Key, out.CA: ca.Pair().Cert} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// All faults of all files are reported at once, without a key's bytes.
func TestCheckFiles(t *testing.T) {
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	good := files(t, "c", "n1", both...)
	missing, empty := filepath.Join(t.TempDir(), "nothing"), write(t, "")
	for name, c := range map[string]struct {
		peer, client TLSFiles
		gossip       string
		want         []string
	}{
		"no TLS": {},
		"good":   {peer: good, client: TLSFiles{Cert: good.Cert, Key: good.Key}},
		"all at once": {
			peer: TLSFiles{Cert: missing, Key: missing, CA: empty}, client: TLSFiles{Cert: good.Cert, Key: missing}, gossip: missing,
			want: []string{"cluster.gossip_key_file", "tls.peer.cert: stat ", "tls.peer.key: stat ", "tls.client.key: stat "},
		},
		"a directory":      {client: TLSFiles{Cert: t.TempDir(), Key: good.Key}, want: []string{"tls.client.cert: read "}},
		"other cluster":    {peer: files(t, "d", "n1", both...), want: []string{"tls.peer.cert ", `is of cluster "d", this one is "c"`}},
		"other node":       {peer: files(t, "c", "n2", both...), want: []string{`names node "n2" where node "n1" was expected`}},
		"only for servers": {peer: files(t, "c", "n1", both[1]), want: []string{"is not for clientAuth"}},
		"other authority":  {peer: TLSFiles{Cert: good.Cert, Key: good.Key, CA: files(t, "c", "n1", both...).CA}, want: []string{"none of the authorities known here"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{NodeID: "n1"}
			cfg.Cluster.Name, cfg.Cluster.GossipKeyFile = "c", c.gossip
			cfg.TLS.Peer, cfg.TLS.Client = c.peer, c.client
			err := cfg.CheckFiles()
			if c.want == nil && err != nil {
				t.Error(err)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "PRIVATE") {
					t.Errorf("error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

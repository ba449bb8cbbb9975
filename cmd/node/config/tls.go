package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/tlsfiles"
)

// TLSFiles are the PEM files of one listener.
type TLSFiles struct {
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	CA   string `koanf:"ca"`
	// LoginFrom is the part of a client's certificate that names the user; for tls.client only.
	LoginFrom string `koanf:"login_from"`
	// Auth is whether clients present a certificate; for tls.client only. See ClientAuth.
	Auth string `koanf:"auth"`
}

// Whether clients present a certificate of an authority in tls.client.ca: they are not asked for
// one; they may, and then it must be valid; or they must.
const (
	ClientAuthNone     = "none"
	ClientAuthOptional = "optional"
	ClientAuthRequired = "required"
)

// ClientAuth is tls.client.auth, or its default: required if tls.client.ca is set.
func (c *Config) ClientAuth() string {
	switch f := c.TLS.Client; {
	case f.Auth != "":
		return f.Auth
	case f.CA != "":
		return ClientAuthRequired
	}
	return ClientAuthNone
}

// checkClientAuth returns the fault of tls.client.auth.
func (c *Config) checkClientAuth() error {
	switch f := c.TLS.Client; f.Auth {
	case "", ClientAuthNone:
		return nil
	case ClientAuthOptional, ClientAuthRequired:
		if f.CA == "" {
			return fmt.Errorf("config: tls.client.auth is %s: set tls.client.ca too, whose certificates are accepted", f.Auth)
		}
		return nil
	default:
		return fmt.Errorf("config: tls.client.auth is %q: use %s, %s or %s, or leave it empty", f.Auth, ClientAuthNone, ClientAuthOptional, ClientAuthRequired)
	}
}

// Parts of a client's certificate that may name the user.
const (
	LoginFromCommonName = "common_name"
	LoginFromDNS        = "san_dns"
	LoginFromEmail      = "san_email"
	LoginFromURI        = "san_uri"
)

// checkLoginFrom returns the fault of tls.client.login_from.
func (c *Config) checkLoginFrom() error {
	from := c.TLS.Client.LoginFrom
	switch from {
	case "":
		return nil
	case LoginFromCommonName, LoginFromDNS, LoginFromEmail, LoginFromURI:
		if c.TLS.Client.CA == "" {
			return fmt.Errorf("config: tls.client.login_from is %s: set tls.client.ca too, whose certificates are trusted to name users", from)
		}
		if c.ClientAuth() == ClientAuthNone {
			return fmt.Errorf("config: tls.client.login_from is %s, but tls.client.auth is none: clients are not asked for the certificates; use %s or %s",
				from, ClientAuthOptional, ClientAuthRequired)
		}
		return nil
	}
	return fmt.Errorf("config: tls.client.login_from is %q: use %s, %s, %s or %s, or leave it empty",
		from, LoginFromCommonName, LoginFromDNS, LoginFromEmail, LoginFromURI)
}

// On reports whether the listener has TLS.
func (f TLSFiles) On() bool { return f.Cert != "" }

// validateTLS returns which files are missing; half a configuration must not end in plain text.
func (c *Config) validateTLS() []error {
	var errs []error
	missing := func(setting, other, why string) {
		errs = append(errs, fmt.Errorf("config: %s is \"\", but %s is set: %s", setting, other, why))
	}
	for _, l := range []struct {
		setting string
		files   TLSFiles
		needsCA bool
	}{{"tls.peer", c.TLS.Peer, true}, {"tls.client", c.TLS.Client, false}} {
		set := ""
		for _, f := range []struct{ key, name string }{{".ca", l.files.CA}, {".key", l.files.Key}, {".cert", l.files.Cert}} {
			if f.name != "" {
				set = l.setting + f.key
			}
		}
		if set == "" {
			continue
		}
		if l.files.Cert == "" {
			missing(l.setting+".cert", set, "name the file with the certificate")
		}
		if l.files.Key == "" {
			missing(l.setting+".key", set, "name the file with the certificate's key")
		}
		if l.files.CA == "" && l.needsCA {
			missing(l.setting+".ca", set, "name the file with the authorities of all nodes' certificates")
		}
	}
	if c.HTTP.TLS && !c.TLS.Client.On() {
		errs = append(errs, errors.New("config: http.tls is true without tls.client.cert: name a certificate, or set it to false"))
	}
	return errs
}

// CheckFiles returns all faults of the files that settings name.
func (c *Config) CheckFiles() error {
	var errs [6]error
	_, errs[0] = c.GossipKey()
	_, errs[3] = c.MetricsToken()
	silent := slog.New(slog.DiscardHandler)
	_, _, errs[4] = c.Tokens(silent)
	_, _, errs[5] = c.Directory(silent)
	if len(c.validateTLS()) == 0 {
		_, errs[1] = c.PeerTLS(silent)
		_, errs[2] = c.ClientTLS(silent)
	}
	return errors.Join(errs[:]...)
}

// PeerTLS opens the files of tls.peer; nil if they are not set. Other nodes must accept the
// certificate as this node's.
func (c *Config) PeerTLS(log *slog.Logger) (*tlsfiles.Files, error) {
	return open("tls.peer", c.TLS.Peer, log, func(own tls.Certificate, authorities *x509.CertPool) error {
		return certificate.Check(c.Cluster.Name, id.NodeID(c.NodeID), own, authorities)
	})
}

// ClientTLS opens the files of tls.client; nil if they are not set.
func (c *Config) ClientTLS(log *slog.Logger) (*tlsfiles.Files, error) {
	return open("tls.client", c.TLS.Client, log, nil)
}

// open reads the files of one TLS setting; nil without an error if it is off. check judges the
// certificate, here and at every reload.
func open(
	setting string, files TLSFiles, log *slog.Logger, check func(tls.Certificate, *x509.CertPool) error,
) (*tlsfiles.Files, error) {
	if !files.On() {
		return nil, nil
	}
	f, err := tlsfiles.Open(tlsfiles.Config{
		Setting: setting, Cert: files.Cert, Key: files.Key, CA: files.CA, Check: check, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return f, nil
}

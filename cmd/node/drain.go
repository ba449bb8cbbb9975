package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/cmd/node/serve"
)

// Variables with the login for drain, as in quoratectl.
const (
	userEnv     = "QUORATE_USER"
	passwordEnv = "QUORATE_PASSWORD"
)

// newDrain makes `quorate drain`, which asks the node of this host to give up leadership while it
// still serves clients.
func newDrain() *cobra.Command {
	var file, address string
	var timeout time.Duration
	var undo bool
	var secure drainTLS
	var login client.Config
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Move all leadership off the node on this host, which accepts no new work from then on, or undo that",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := drainTarget(file, address, &secure)
			if err == nil && target.TLS != nil {
				err = trustPublic()
			}
			if err != nil {
				return err
			}
			if login.Username == "" {
				login.Username = os.Getenv(userEnv)
			}
			if login.Password != "" {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "warning: every user of this host can see --password in the list of processes: use %s\n", passwordEnv)
			}
			if login.Username != "" && login.Password == "" {
				login.Password = os.Getenv(passwordEnv)
			}
			if login.Username != "" || login.Password != "" {
				target.Username, target.Password, target.Token = login.Username, login.Password, ""
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			c, err := client.New(target)
			if err != nil {
				return err
			}
			defer c.Close()
			address := target.Addresses[0]
			if undo {
				if err := c.Undrain(ctx, client.UndrainRequest{}); err != nil {
					return fmt.Errorf("undrain of %s: %w", address, err)
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "undrained", address)
				return err
			}
			if err := c.Drain(ctx); err != nil {
				return fmt.Errorf("drain of %s: %w", address, err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "drained", address)
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "YAML file of the node, for its listen.client and tls.client")
	cmd.Flags().StringVar(&address, "address", "", "client address of the node; empty: listen.client on this host")
	cmd.Flags().DurationVar(&timeout, "timeout", 60*time.Second, "give up after this time")
	cmd.Flags().BoolVar(&undo, "undo", false, "let a drained node take new work and lead again")
	cmd.Flags().StringVar(&login.Username, "user", "", "administrator to log in as ("+userEnv+"); empty: the token of the node's host, else auth.default_user")
	cmd.Flags().StringVar(&login.Password, "password", "", "password of the user; better use "+passwordEnv+"; empty: auth.default_password")
	secure.addFlags(cmd.Flags())
	return cmd
}

// drainTLS has the flags for a node at --address; the node on this host has its own settings.
type drainTLS struct {
	on    bool
	files client.TLS
}

// addFlags adds the flags, which apply only with --address; without it the node's own settings
// describe how to reach it.
func (d *drainTLS) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&d.on, "tls", false, "with --address: use TLS; the other --tls flags imply it")
	f.StringVar(&d.files.CA, "tls-ca", "", "with --address: PEM file with the authorities of the nodes' certificates; default: the system's")
	f.StringVar(&d.files.Cert, "tls-cert", "", "with --address: PEM file with a client certificate")
	f.StringVar(&d.files.Key, "tls-key", "", "with --address: PEM file with its key")
	f.StringVar(&d.files.ServerName, "tls-server-name", "", "with --address: name in the node's certificate; default: the address's host")
}

// drainTarget returns how to reach the node.
func drainTarget(file, address string, secure *drainTLS) (client.Config, error) {
	out := client.Config{Addresses: []string{address}, FixedAddresses: true}
	given := secure.on || secure.files != (client.TLS{})
	if address != "" {
		if given {
			out.TLS = &secure.files
		}
		return out, nil
	}
	if given {
		return out, errors.New("the --tls flags go with --address: the node on this host is reached with its own tls.client settings")
	}
	cfg, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return out, err
	}
	if out.Addresses[0], err = local(cfg.Listen.Client); err != nil {
		return out, err
	}
	if err := addOwnLogin(&out, cfg); err != nil {
		return out, err
	}
	if cfg.TLS.Client.On() {
		out.Credentials, err = ownCredentials(cfg)
	}
	return out, err
}

// addOwnLogin logs in with the token of the node's host (VH-11), which stays valid whatever happens
// to users. If the node would not accept the token, or it cannot be read, it logs in as the
// administrator of the founding.
func addOwnLogin(c *client.Config, cfg *config.Config) error {
	host, _, err := net.SplitHostPort(c.Addresses[0])
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); cfg.Authenticate() && (host == "localhost" || ip.IsLoopback()) {
		if c.Token, err = serve.HostToken(cfg.DataDir); err == nil && c.Token != "" {
			return nil
		}
	}
	c.Username, c.Token = cfg.Auth.DefaultUser, ""
	c.Password, err = cfg.DefaultPassword()
	return err
}

// ownCredentials are for the node on this host: it must present exactly the certificate of its
// settings, whatever names that has, and the caller presents the same one if it can read the key.
func ownCredentials(cfg *config.Config) (credentials.TransportCredentials, error) {
	files, err := cfg.ClientTLS(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	own, _ := files.Current()
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // the certificate is compared below
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &own, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, own.Certificate[0]) {
				return fmt.Errorf("the certificate at this address is not that of tls.client.cert %s: "+
					"check that it is the node of these settings, and whether its files have just been changed", cfg.TLS.Client.Cert)
			}
			return nil
		},
	}), nil
}

// local returns how to reach a listener from its own host.
func local(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("listen.client %q: %w", listen, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

package serve

import (
	"context"
	"os"
	"slices"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/access/ldap"
	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/metrics"
)

// AsksOthers reports whether a node with these settings connects to others than nodes: a token issuer, a directory, or a
// collector of traces, whose certificates may be of public authorities.
func AsksOthers(cfg *config.Config) bool {
	traced, _ := tracingWanted(os.Getenv) // the start logs a fault
	outside := func(backend string) bool { return backend == oauth2.Name || backend == ldap.Name }
	return traced || cfg.Authenticate() && slices.ContainsFunc(cfg.Auth.Backends, outside)
}

// openBackends makes the backends of auth.backends besides the users of the cluster.
func (n *node) openBackends() error {
	directory, on, err := n.cfg.Directory(n.log)
	if err != nil {
		return err
	}
	if on {
		n.directory = ldap.New(directory)
	}
	c, on, err := n.cfg.Tokens(n.log)
	if err != nil || !on {
		return err
	}
	n.tokens = oauth2.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	n.watches.Go(func() { n.tokens.Run(ctx) })
	n.watches.Go(func() {
		<-n.unwatch
		cancel()
	})
	return nil
}

// backends returns the backends of auth.backends in their order.
func (n *node) backends(own access.Backend) (all []access.Backend) {
	for _, name := range n.cfg.Auth.Backends {
		switch {
		case name == own.Name():
			all = append(all, own)
		case n.tokens != nil && name == n.tokens.Name():
			all = append(all, access.Guard(n.tokens, n.cfg.CacheFor(), n.cfg.Auth.Timeout))
		case n.directory != nil && name == n.directory.Name():
			all = append(all, access.Guard(n.directory, n.cfg.CacheFor(), n.cfg.Auth.Timeout))
		}
	}
	return all
}

// loginFigures returns the answers of each backend under its name.
func (n *node) loginFigures() map[string]metrics.Logins {
	out := map[string]metrics.Logins{}
	for backend, c := range n.broker.Logins.LoginCounts() {
		out[backend] = metrics.Logins(c)
	}
	return out
}

// keyFigures describe the keys of the token issuer; false: there is no issuer.
func (n *node) keyFigures() (metrics.IssuerKeys, bool) {
	if n.tokens == nil {
		return metrics.IssuerKeys{}, false
	}
	return metrics.IssuerKeys(n.tokens.Figures()), true
}

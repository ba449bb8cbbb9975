package main

import (
	"testing"

	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/publicroots"
)

// Where the system trusts nobody, as in the image, a node that asks others trusts public authorities all the same.
func TestPublicAuthorities(t *testing.T) {
	publicroots.Trusted(t, func() error {
		cfg := &config.Config{}
		cfg.Auth.Mode, cfg.Auth.Backends = "password", []string{oauth2.Name}
		return trustFor(cfg)
	})
}

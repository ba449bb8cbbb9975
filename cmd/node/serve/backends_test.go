package serve

import (
	"testing"

	"github.com/quorate/quorate/access/ldap"
	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/cmd/node/config"
)

// Those whom a node asks are others than nodes and clients; without a login it asks nobody who a client is.
func TestAsksOthers(t *testing.T) {
	for _, c := range []struct {
		mode, backend, collector string
		want                     bool
	}{
		{"password", identity.InternalUsers, "", false},
		{"password", oauth2.Name, "", true},
		{"password", ldap.Name, "", true},
		{"none", ldap.Name, "", false},
		{"none", identity.InternalUsers, "https://collector.example:4317", true},
		{"password", identity.InternalUsers, "https://collector.example:4317", true},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.collector)
		cfg := &config.Config{}
		cfg.Auth.Mode, cfg.Auth.Backends = c.mode, []string{identity.InternalUsers, c.backend}
		if got := AsksOthers(cfg); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

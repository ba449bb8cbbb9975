package serve

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/gate"
)

// The HTTP API learns the ports that are configured, what they are for, when the certificate ends,
// and the settings without the password.
func TestFacts(t *testing.T) {
	ca, end := newCA(t), time.Now().Add(time.Hour)
	pair, _ := issue(t, ca, x509.ExtKeyUsageServerAuth, end)
	n := nodeWith(t, pair, ca, config.ClientAuthNone)
	n.cfg.Listen.Client, n.cfg.Listen.AMQP, n.cfg.Listen.AMQPS = "0.0.0.0:7071", "[::1]:5672", "off"
	n.cfg.Listen.Management, n.cfg.Listen.HTTP = "127.0.0.1:15672", "127.0.0.1:7073"
	n.cfg.Limits.Connections, n.cfg.Auth.DefaultPassword, n.cfg.Cluster.Expect = 7, "secret", 5
	n.gates.clients = gate.New(gate.Config{Name: "clients", Logger: n.log})
	n.keepSettings()
	f := n.facts()
	if got, want := fmt.Sprint(f.Listeners()), "[{grpc/ssl 0.0.0.0 7071} {amqp ::1 5672} {http/ssl 127.0.0.1 15672} {http 127.0.0.1 7073}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := f.Expected(); n != 5 {
		t.Errorf("%d nodes are expected", n)
	}
	if ends := f.Certificates(); len(ends) != 1 || ends["client"].Sub(end).Abs() > time.Minute {
		t.Errorf("%v, want %v", ends, end)
	}
	if open, most := f.Connections(); open != 0 || most != 7 {
		t.Errorf("%d of %d connections", open, most)
	}
	settings := f.Settings()
	for name, want := range map[string]any{"limits.connections": 7, "auth.default_password": "(hidden)", "timeouts.drain": "0s"} {
		if settings[name] != want {
			t.Errorf("%s is %v, want %v", name, settings[name], want)
		}
	}
	before := f.Settings()
	n.cfg.Timeouts.Drain = time.Minute
	n.keepSettings() // as after a reload
	if f.Settings()["timeouts.drain"] != "1m0s" || before["timeouts.drain"] != "0s" {
		t.Errorf("%v, before %v", f.Settings()["timeouts.drain"], before["timeouts.drain"])
	}
}

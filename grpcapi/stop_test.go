package grpcapi

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/testnode"
)

// A client that connects and never says a word does not hold up the stop, however long it may take to log in: other
// clients would be notified only after that.
func TestStopWithSilentClient(t *testing.T) {
	for name, secure := range map[string]*tls.Config{"plain": nil, "TLS": {MinVersion: tls.VersionTLS12}} {
		t.Run(name, func(t *testing.T) {
			g := gate.New(gate.Config{Name: "test", LoginTimeout: time.Hour})
			s := New(Config{Broker: brokerOf(t, testnode.Waiting(t), false), Gate: g, TLS: secure})
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			until(t, "it does not come in", func() bool { return g.Stats().Unauthenticated == 1 })
			ctx := testContext(t)
			stopped := make(chan error, 1)
			go func() { stopped <- s.Shutdown(ctx) }()
			select {
			case err = <-stopped:
			case <-time.After(time.Minute):
				t.Error("the stop waits for a client that says nothing")
				_ = silent.Close()
				err = <-stopped
			}
			if err != nil {
				t.Error(err)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			_ = silent.Close()
		})
	}
}

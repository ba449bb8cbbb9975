package gossip

import (
	"io"
	"log"
	"net"
	"strconv"
	"testing"

	"github.com/hashicorp/memberlist"

	"github.com/quorate/quorate/internal/gate"
)

// The ports are closed although connections come that nobody reads any longer.
func TestShutdownTakesTheRest(t *testing.T) {
	for range 20 {
		c := memberlist.DefaultLANConfig()
		c.BindAddr, c.BindPort = "127.0.0.1", 0
		tr, err := listenGated(c, gate.New(gate.Config{Name: "test", LoginTimeout: -1, Own: true}), log.New(io.Discard, "", 0))
		if err != nil {
			t.Fatal(err)
		}
		var all []net.Conn
		for range 10 {
			nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.BindPort)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, nc)
		}
		for range 2 {
			if err := tr.Shutdown(); err != nil {
				t.Error(err)
			}
		}
		for _, nc := range all {
			_ = nc.Close()
		}
	}
}

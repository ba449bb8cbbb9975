package amqp_test

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
)

// VH-2: a client is notified and cut off when its vhost or its user is deleted; others stay connected.
func TestConnectionsOfWhatIsDeletedEnd(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 1)
	b := c.Broker(0)
	admin := identity.WithIdentity(t.Context(), identity.Itself())
	must := func(_ bool, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, vhost := range []string{"kept", "short"} {
		must(b.Administration.PutVHost(admin, administration.VHost{Name: vhost, VHostLimits: administration.NoVHostLimits()}))
		for _, user := range []string{"anna", "bert"} {
			must(b.Administration.PutUser(admin, administration.PutUser{Name: user, Password: "secret"}))
			must(b.Administration.SetPermission(admin, administration.Permission{User: user, VHost: vhost, Configure: ".*", Write: ".*", Read: ".*"}))
		}
	}
	enter := func(user, vhost string) *peer {
		t.Helper()
		p := dial(t, c.AMQP(0))
		p.start()
		p.send(0, &wire.ConnectionStartOK{Mechanism: "PLAIN", Response: "\x00" + user + "\x00secret"})
		want[*wire.ConnectionTune](p)
		p.send(0, &wire.ConnectionTuneOK{})
		p.send(0, &wire.ConnectionOpen{VirtualHost: vhost})
		want[*wire.ConnectionOpenOK](p)
		return p
	}
	stays, ofVHost, ofUser := enter("anna", "kept"), enter("anna", "short"), enter("bert", "kept")
	must(b.Administration.DeleteVHost(admin, "short"))
	if text := ofVHost.closed(wire.ConnectionForced, 0); !strings.Contains(text, "vhost 'short' was deleted") {
		t.Error(text)
	}
	must(b.Administration.DeleteUser(admin, "bert"))
	if text := ofUser.closed(wire.ConnectionForced, 0); !strings.Contains(text, "user 'bert' was deleted") {
		t.Error(text)
	}
	stays.send(1, &wire.ChannelOpen{})
	want[*wire.ChannelOpenOK](stays)
}

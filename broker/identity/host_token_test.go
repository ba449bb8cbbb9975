package identity

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
)

// VH-11: the token of the host is accepted from the host alone, and an empty one never.
func TestHostToken(t *testing.T) {
	token := NewHostToken()
	if token == NewHostToken() || !strings.HasPrefix(token, "quorate_host_") {
		t.Errorf("token %q", token)
	}
	b, none := testLogins(catalog.New().View, Config{HostToken: token}), testLogins(catalog.New().View, Config{})
	for _, row := range []struct {
		b        *Logins
		text     string
		loopback bool
		want     bool
	}{
		{b, token, true, true},
		{b, token, false, false},
		{b, token + "x", true, false},
		{b, "", true, false},
		{none, "", true, false},
		{none, token, true, false},
	} {
		if who, err := row.b.LoginToken(t.Context(), row.text, fromHost(row.loopback)); (err == nil) != row.want || row.want && who.User() != "host:" {
			t.Errorf("%q, on the host %v: %v, %v; want it taken: %v", row.text, row.loopback, who, err, row.want)
		}
	}
}

func fromHost(is bool) netip.Addr {
	if is {
		return netip.IPv6Loopback()
	}
	return netip.Addr{}
}

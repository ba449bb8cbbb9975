package imports_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/imports"
	"github.com/quorate/quorate/internal/testcluster"
)

// defined returns a document with n queues, each with a binding, and a user.
func defined(n int) []byte {
	var queues, bindings []string
	for i := range n {
		queues = append(queues, fmt.Sprintf(`{"name":"q%d","vhost":"shop","type":"quorum","durable":true,"auto_delete":false,"arguments":{"x-queue-type":"quorum"},"declared_by":"chief"}`, i))
		bindings = append(bindings, fmt.Sprintf(`{"source":"x","vhost":"shop","destination":"q%d","destination_type":"queue","routing_key":"k","arguments":{}}`, i))
	}
	return fmt.Appendf(nil, `{"users":[{"name":"chief","password":"secret","tags":["administrator"],"limits":{}}],
		"vhosts":[{"name":"shop"}],"permissions":[{"user":"chief","vhost":"shop","configure":".*","write":".*","read":".*"}],
		"policies":[{"vhost":"shop","name":"p","pattern":"^q","apply-to":"queues","definition":{"max-length":5},"priority":0}],
		"exchanges":[{"name":"x","vhost":"shop","type":"fanout","durable":true,"auto_delete":false,"internal":false,"arguments":{}}],
		"queues":[%s],"bindings":[%s]}`, strings.Join(queues, ","), strings.Join(bindings, ","))
}

func counts(s imports.Summary) string {
	n := s.Counts
	return fmt.Sprintf("%d: %d created, %d unchanged, %d different, %d refused, %d skipped, %d failed", s.Total, n[imports.Created],
		n[imports.Unchanged], n[imports.Different], n[imports.Refused], n[imports.Skipped], n[imports.Failed])
}

// VH-9: nodes import what their configuration names before they serve, and a fresh cluster has the
// document's users and no other. What is deleted later stays deleted until the document changes.
// Queues have the declarers that the document names (VH-17).
func TestImportAtStart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	const queues = 3
	c := testcluster.StartWith(t, 3, broker.Config{Definitions: imports.AtStart{Document: defined(queues)}})
	for i := range 3 {
		found, _, err := c.Broker(i).Queues.Page(identity.WithIdentity(t.Context(), identity.Itself()), "shop", 0, "", false)
		if err != nil || len(found) != queues || found[0].Policy != "p" || found[0].DeclaredBy != "chief" || !found[0].CountsForDeclarer {
			t.Errorf("node %d has %+v, %v", i, found, err)
		}
		if _, err := c.Broker(i).Logins.Login(t.Context(), "chief", "secret", netip.Addr{}); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
		if _, err := c.Broker(i).Logins.Login(t.Context(), "guest", "guest", netip.IPv6Loopback()); err == nil {
			t.Errorf("node %d has the user guest", i)
		}
	}
	chief, err := c.Broker(0).Logins.Login(t.Context(), "chief", "secret", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := identity.WithIdentity(t.Context(), chief)
	if _, err := c.Broker(0).DeleteQueue(ctx, "shop", "q1", broker.Deletion{}); err != nil {
		t.Fatal(err)
	}
	c.Kill(1)
	c.Restart(1)
	c.AwaitReady(1)
	if found, _, err := c.Broker(1).Queues.Page(ctx, "shop", 0, "", false); err != nil || len(found) != queues-1 {
		t.Errorf("after a restart with the same document: %+v, %v", found, err)
	}

	again := func(want string) {
		t.Helper()
		s, err := c.Broker(1).Definitions.Import(ctx, imports.Request{Document: defined(queues)}, nil)
		if got := counts(s); err != nil || got != want {
			t.Errorf("%s, want %s; %v", got, want, err)
		}
	}
	again("11: 2 created, 9 unchanged, 0 different, 0 refused, 0 skipped, 0 failed")
	again("11: 0 created, 11 unchanged, 0 different, 0 refused, 0 skipped, 0 failed")
}

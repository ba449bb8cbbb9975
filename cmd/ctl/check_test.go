package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/checks"
	"github.com/quorate/quorate/internal/testcluster"
)

func TestCertificateEnd(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.EnableHTTP2 = true // as gRPC
	server.StartTLS()
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "https://")
	want := server.Certificate().NotAfter
	if ends, err := certificateEnd(t.Context(), address); err != nil || !ends.Equal(want) {
		t.Errorf("%v, %v, want %v", ends, err, want)
	}
	l := &look{Look: checks.Look{Status: client.ClusterStatus{Nodes: []client.ClusterNode{{ID: "a", ClientAddress: address}}}}, within: time.Until(want) - time.Hour}
	if found := l.certificates(t.Context()); len(found) > 0 {
		t.Errorf("it ends in time: %+v", found)
	}
	l.within += 2 * time.Hour
	if found := l.certificates(t.Context()); len(found) != 1 || !strings.Contains(found[0].Problem, "ends on "+want.UTC().Format(time.RFC3339)) {
		t.Errorf("it ends soon: %+v", found)
	}
	server.Close()
	if found := l.certificates(t.Context()); len(found) != 1 || !strings.Contains(found[0].Problem, "refused") {
		t.Errorf("nobody is there: %+v", found)
	}
}

// Every check that looks at all finds members that are not rebuilt yet, although all nodes are there.
func TestLostMembersAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	c := testcluster.StartAs(t, 3, testcluster.Settings{NoRepair: true})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ctl := func(line string) (code int, all string) {
		var o, e shared
		code = run(ctx, append([]string{"-a", strings.Join(c.Addrs(), ",")}, strings.Fields(line)...), &o, &e)
		return code, o.String() + e.String()
	}
	do := func(line string) {
		t.Helper()
		if code, all := ctl(line); code != 0 {
			t.Fatalf("quoratectl %s: %d\n%s", line, code, all)
		}
	}
	do("queue declare orders")
	do("publish orders spoilt")
	do("publish orders behind-it")
	testcluster.Poll(t, "node 2 has both messages", func() error {
		members, err := c.Broker(0).Operators.QueueMembers(ctx, "/", "orders", false)
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.AppliedIndex == 0 || m.AppliedIndex != members[0].AppliedIndex {
				return errors.New(m.Node + " has not applied all")
			}
		}
		return nil
	})
	c.Kill(2)
	c.Spoil(2, "spoilt")
	c.Restart(2)
	for _, line := range []string{"check quorum-critical", "check all", "doctor"} {
		testcluster.Poll(t, line, func() error {
			if code, all := ctl(line); code != 1 || !strings.Contains(all, "not built anew yet") {
				return errors.New(all)
			}
			return nil
		})
	}
}

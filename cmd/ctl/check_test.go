package main

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

func TestCritical(t *testing.T) {
	three := []string{"a", "b", "c"}
	for _, x := range []struct {
		members, online []string
		node            string
		problem         string // "": none
	}{
		{three, three, "", ""},
		{three, three, "a", ""},
		{three, []string{"a", "b"}, "", "stands still without one more of [\"a\" \"b\"]"},
		{three, []string{"a", "b"}, "a", "stands still without one more"},
		{three, []string{"a", "b"}, "c", ""},
		{three, []string{"a"}, "c", "it stands still: of its members [\"a\" \"b\" \"c\"] only [\"a\"]"},
		{[]string{"a"}, []string{"a"}, "", "its only member is on node \"a\""},
		{[]string{"a"}, []string{"a"}, "b", ""},
		{[]string{"a"}, nil, "", "it stands still"},
		{[]string{"a", "b"}, []string{"a", "b"}, "", "stands still without one more"},
		{[]string{"a", "b", "c", "d", "e"}, three, "b", "stands still without one more"},
	} {
		p, is := critical(client.QueueInfo{Name: "q", VHost: "/", Members: x.members, Online: x.online}, x.node)
		if is != (x.problem != "") || is && (!strings.Contains(p.Problem, x.problem) || p.Remedy == "" || p.Object == "") {
			t.Errorf("%q of %q, node %q: %+v, want %q", x.online, x.members, x.node, p, x.problem)
		}
	}
}

func TestChecksOfNodes(t *testing.T) {
	started := &client.StartProgress{Phase: startDone}
	fine := func(id string) client.ClusterNode {
		return client.ClusterNode{
			ID: id, Alive: true, Start: started, Version: "1.0.0", ReadsVersion: 5,
			Disk: &client.DiskStatus{Pressure: "none"}, Clock: &client.ClockStatus{Offset: time.Millisecond},
		}
	}
	of := func(nodes ...client.ClusterNode) *look {
		return &look{status: client.ClusterStatus{CatalogLeader: "a", FinalizedVersion: 5, Nodes: nodes}}
	}
	expect := func(what string, found []problem, want ...string) {
		t.Helper()
		var got []string
		for _, p := range found {
			if p.Remedy == "" {
				t.Errorf("%s: no remedy for %q", what, p.Problem)
			}
			got = append(got, p.Object+": "+p.Problem)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	all := of(fine("a"), fine("b"))
	expect("all is well", slices.Concat(all.ready(), all.alarms(), all.versions()))

	down, drains, silent := fine("b"), fine("c"), fine("d")
	down.Alive, down.Start, down.Disk, down.Clock = false, nil, nil, nil
	drains.Draining = true
	silent.Start = nil
	l := of(fine("a"), down, drains, silent)
	l.status.CatalogLeader = ""
	expect("ready", l.ready(), "node b: it is down", "node c: it is draining", "node d: it is silent", "catalog: it has no leader: nothing can be declared")
	l.status.CatalogLeader, l.node = "a", "c"
	expect("one node", l.ready(), "node c: it is draining")

	full, early := fine("b"), fine("c")
	full.Disk = &client.DiskStatus{Pressure: "low", Path: "/data", FreeBytes: 7, LowBytes: 100, FloorBytes: 10, Hangs: 2 * time.Second}
	early.Clock = &client.ClockStatus{Offset: time.Minute, Off: true}
	expect("alarms", of(fine("a"), full, early).alarms(), "node b: 7 bytes are free on /data, which is below its limit low (100 bytes)",
		"node b: a write to /data hangs for 2s", "node c: its wall clock is 1m0s off")

	newer := fine("b")
	newer.Version, newer.ReadsVersion = "1.1.0", 6
	expect("versions", of(fine("a"), newer).versions(), `cluster: nodes run ["1.0.0" "1.1.0"]`, "cluster: version 5 is finalised, nodes can read 6")
}

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
	l := &look{status: client.ClusterStatus{Nodes: []client.ClusterNode{{ID: "a", ClientAddress: address}}}, within: time.Until(want) - time.Hour}
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

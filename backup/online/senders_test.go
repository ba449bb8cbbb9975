package online

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/client"
)

// Followers come first, those before others that lead fewer queues, and the leader last. Nodes that cannot send are left out.
func TestSenders(t *testing.T) {
	node := func(id string, leaders uint32) client.ClusterNode {
		return client.ClusterNode{ID: id, ClientAddress: id + ":1", Alive: true, Leaders: leaders}
	}
	dead, silent := node("dead", 0), node("silent", 0)
	dead.Alive, silent.ClientAddress = false, ""
	s := newSenders(&client.ClusterStatus{Nodes: []client.ClusterNode{node("a", 3), node("b", 2), node("c", 1), node("d", 0), dead, silent}})
	for _, row := range []struct {
		leader, members, want string
	}{
		{"c", "a b c", "b a c"},
		{"a", "a b c", "c b a"},
		{"", "a b c", "c b a"},
		{"d", "d", "d"},
		{"dead", "a dead silent gone", "a"},
		{"dead", "dead", ""},
	} {
		got := s.of(&client.QueueInfo{Leader: row.leader, Members: strings.Fields(row.members)})
		want := strings.Fields(strings.ReplaceAll(row.want+" ", " ", ":1 "))
		if row.want == "" {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("members %s, leader %q: %v, want %v", row.members, row.leader, got, want)
		}
	}
}

// A backup asks followers for their copies, whichever node the client uses for the rest.
func TestFollowersSend(t *testing.T) {
	x := start(t)
	var mu sync.Mutex
	asked := map[string]bool{} // addresses of nodes that were asked for a copy
	seen := func(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if strings.HasSuffix(method, "/ExportQueue") {
			mu.Lock()
			asked[strings.TrimPrefix(conn.Target(), "passthrough:///")] = true
			mu.Unlock()
		}
		return next(ctx, d, conn, method, opts...)
	}
	usual := x.c
	for i := range 3 {
		name := fmt.Sprint("q", i)
		x.declare(name, nil)
		x.publish(name, client.Message{Body: []byte(name)})
	}
	status, err := usual.ClusterStatus(x.at)
	x.must(err)
	addresses := map[string]string{}
	for _, n := range status.Nodes {
		addresses[n.ID] = n.ClientAddress
	}
	for i := range 3 {
		name := fmt.Sprint("q", i)
		q, err := usual.GetQueue(x.at, client.QueueRef{Name: name})
		x.must(err)
		leader := addresses[q.Leader] // the only one that is configured: the other calls go there
		c, err := client.Dial(x.at, client.Config{Addresses: []string{leader}, DialOptions: []grpc.DialOption{grpc.WithStreamInterceptor(seen)}})
		x.must(err)
		x.c = c
		clear(asked)
		x.backup("/", name)
		c.Close()
		if len(asked) == 0 || asked[leader] {
			t.Errorf("%s, which %s leads: %v were asked", name, leader, asked)
		}
	}
}

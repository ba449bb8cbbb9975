package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster/recovery"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Two of three real processes lose their directories: the third is recovered, after it has
// said what is lost, and serves what it had.
func TestRecover(t *testing.T) {
	t.Parallel()
	binary := build(t)
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	left, lost := c.Nodes[0], c.Nodes[1:]
	publishOne(ctx, t, c)
	stopping, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if err := c.Stop(stopping); err != nil {
		t.Fatal(err)
	}
	names := []string{lost[0].ID, lost[1].ID}
	for _, n := range lost {
		if err := os.RemoveAll(filepath.Join(n.Dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"recover", "--config", filepath.Join(left.Dir, "node.yaml"), "--lost", strings.Join(names, ",")}
	recovered := func(more ...string) string {
		t.Helper()
		out, err := exec.CommandContext(ctx, binary, append(args, more...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	report := filepath.Join(t.TempDir(), "report")
	for _, want := range []string{"the catalog", `queue "q" in vhost "/"`, "goes on with this node's log", "Nothing was changed", "--accept-loss " + strings.Join(names, ",")} {
		if said := recovered("--report", report); !strings.Contains(said, want) {
			t.Errorf("lacks %q:\n%s", want, said)
		}
	}
	if text, err := os.ReadFile(report); err != nil || !bytes.Contains(text, []byte(left.ID)) {
		t.Errorf("report %s, %v", text, err)
	}
	onlyReport, err := exec.CommandContext(ctx, binary, "recover", "--config", filepath.Join(left.Dir, "node.yaml"), "--report", "-").Output()
	var printed recovery.Report
	if err == nil {
		err = json.Unmarshal(onlyReport, &printed)
	}
	if err != nil || string(printed.Node) != left.ID {
		t.Errorf("the report that is printed is %s, %v", onlyReport, err)
	}
	for want, more := range map[string][]string{
		"must name the same nodes":           {"--accept-loss", names[0]},
		"is not a report of quorate recover": {"--survivor", filepath.Join(left.Dir, "node.yaml")},
		"is not in the cluster: it knows":    {"--lost", "nobody"},
		"is this one, and not lost":          {"--lost", left.ID},
		"name the nodes that are lost for":   nil,
	} {
		line := append(args[:len(args):len(args)], more...)
		if more == nil {
			line = args[:3]
		}
		if said := fails(t, binary, line...); !strings.Contains(said, want) {
			t.Errorf("%q lacks %q:\n%s", more, want, said)
		}
	}
	if said := recovered("--accept-loss", names[1]+","+names[0]); !strings.Contains(said, "Done. Start node") {
		t.Errorf("said\n%s", said)
	}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	if err := left.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	cl, err := client.Dial(ctx, client.Config{Addresses: []string{left.Client}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	got, err := cl.Get(ctx, client.GetRequest{Queue: "q", AutoAck: true})
	if err != nil || string(got.Body) != "kept" {
		t.Errorf("%v, %v", got, err)
	}
	st, err := cl.ClusterStatus(ctx)
	if err != nil || len(st.Nodes) != 1 {
		t.Errorf("nodes %v, %v", st.Nodes, err)
	}
	for _, n := range lost { // with an empty directory they come back, by their names, as new nodes
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		if err := n.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// The plan shows members that have nothing, also of queues that lose no member, and does not promise a majority of them.
func TestRecoveryShowsWhoHasNothing(t *testing.T) {
	t.Parallel()
	log := map[id.NodeID]raftfsm.Stored{"a": {LastTerm: 3, LastIndex: 7}}
	ab, abc := []id.NodeID{"a", "b"}, []id.NodeID{"a", "b", "c"}
	r := &recovery.Recovery{Groups: []recovery.Group{
		{Group: id.CatalogGroup, Members: abc, Left: ab, Logs: log, Missing: []id.NodeID{"b"}, Lost: []id.NodeID{"c"}, Action: recovery.Nothing},
		{Name: "half", Members: abc, Left: ab, Logs: log, Bare: []id.NodeID{"b"}, Lost: []id.NodeID{"c"}, Action: recovery.Nothing},
		{Name: "alone", Members: []id.NodeID{"b"}, Left: []id.NodeID{"b"}, Bare: []id.NodeID{"b"}, Action: recovery.Declare},
		{Name: "whole", Members: []id.NodeID{"a"}, Left: []id.NodeID{"a"}, Logs: log, Action: recovery.Nothing},
	}}
	var out bytes.Buffer
	if err := printRecovery(&out, r); err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
	for _, want := range []string{
		"the catalog c a: 3/7, b: no report keeps its majority\n",
		"queue \"half\" in vhost \"\" c a: 3/7, b: nothing keeps its majority, unless the log of b is lost: then run this on the others with --lost b too\n",
		"queue \"alone\" in vhost \"\" b: nothing is lost: delete the queue and declare it again\n",
		"\n1 more lose nothing",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q:\n%s", want, said)
		}
	}
}

// withQueue returns a client of the cluster that has declared queue q.
func withQueue(ctx context.Context, t *testing.T, c *chaos.Cluster) *client.Client {
	t.Helper()
	cl, err := client.Dial(ctx, client.Config{Addresses: c.Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	return cl
}

// publishOne declares queue q and stores a message in it.
func publishOne(ctx context.Context, t *testing.T, c *chaos.Cluster) {
	t.Helper()
	cl := withQueue(ctx, t, c)
	defer cl.Close()
	if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("kept")}); err != nil {
		t.Fatal(err)
	}
	// Who leads has all that was confirmed.
	if err := cl.TransferLeadership(ctx, client.TransferLeadershipRequest{Queue: "q", Node: c.Nodes[0].ID}); err != nil {
		t.Fatal(err)
	}
}

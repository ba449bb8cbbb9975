package upgrade

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/run"
	"github.com/quorate/quorate/chaos/target/local"
	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/client"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

const (
	testTimeout = 4 * time.Minute
	clusterName = "upgrade"
	manual      = "QUORATE_CLUSTER__FINALIZE=manual"
	pollEvery   = 20 * time.Millisecond
)

// roll is a cluster between two builds.
type roll struct {
	t        *testing.T
	cluster  *chaos.Cluster
	client   *client.Client
	old, new string // programs
	reads    uint32 // what the old one reads
}

// to starts a node's process anew from a build.
func (r *roll) to(ctx context.Context, n *chaos.Node, binary string) error {
	r.t.Logf("%s: %s goes to the %s build", time.Now().Format("05.000"), n.ID, filepath.Base(binary))
	if err := n.Stop(ctx); err != nil {
		return err
	}
	n.Use(binary, r.env(binary)...)
	if err := n.Start(); err != nil {
		return err
	}
	return n.WaitReady(ctx)
}

// env is for the new build alone: the old one knows no such setting.
func (r *roll) env(binary string) []string {
	if binary == r.new {
		return []string{manual}
	}
	return nil
}

// all rolls one node after another.
func (r *roll) all(ctx context.Context, binary string) error {
	for i, n := range r.cluster.Nodes {
		if err := r.to(ctx, n, binary); err != nil {
			return err
		}
		if err := r.notFinalised(ctx); err != nil {
			return err
		}
		if binary != r.new {
			continue
		}
		if err := r.listed(ctx, n, r.cluster.Nodes[:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// notFinalised fails if a version has been finalised, which nobody has asked for.
func (r *roll) notFinalised(ctx context.Context) error {
	s, err := r.client.ClusterStatus(ctx)
	if err == nil && s.FinalizedVersion > r.reads {
		err = fmt.Errorf("node %s says that version %d is finalised", s.Node, s.FinalizedVersion)
	}
	return err
}

// finalise ends the upgrade as soon as nothing holds it back.
func (r *roll) finalise(ctx context.Context) error {
	for {
		v, err := r.client.FinalizeVersion(ctx, client.FinalizeVersionRequest{DryRun: true})
		if err == nil && len(v.Held) == 0 {
			break
		}
		if err := sleep(ctx, fmt.Errorf("held back by %v, %w", v.Held, err)); err != nil {
			return err
		}
	}
	_, err := r.client.FinalizeVersion(ctx, client.FinalizeVersionRequest{})
	return err
}

func sleep(ctx context.Context, why error) error {
	select {
	case <-time.After(pollEvery):
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), why)
	}
}

// status asks a node as its peers do.
func status(ctx context.Context, n *chaos.Node) (*nodev1.NodeStatusResponse, error) {
	conn, err := grpc.NewClient(n.Peer, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // it was only read from
	ctx = metadata.AppendToOutgoingContext(ctx, "quorate-cluster", clusterName, "quorate-node", "observer", "quorate-epoch", "1",
		"quorate-reads", "255")
	return nodev1.NewNodeClient(conn).NodeStatus(ctx, &nodev1.NodeStatusRequest{Digests: true})
}

// states returns each group's state on each node, as text, once all have applied the same.
func (r *roll) states(ctx context.Context) map[uint64]map[string]string {
	r.t.Helper()
	for {
		at, states := map[uint64]map[uint64]bool{}, map[uint64]map[string]string{}
		var errs []error
		for _, n := range r.cluster.Nodes {
			s, err := status(ctx, n)
			errs = append(errs, err)
			for _, g := range s.GetGroups() {
				if at[g.GetGroup()] == nil {
					at[g.GetGroup()], states[g.GetGroup()] = map[uint64]bool{}, map[string]string{}
				}
				at[g.GetGroup()][g.GetAppliedIndex()] = true
				states[g.GetGroup()][n.ID] = hex.EncodeToString(g.GetStateDigest())
				if g.GetFailed() != "" {
					r.t.Fatalf("group %d on %s has failed: %s", g.GetGroup(), n.ID, g.GetFailed())
				}
			}
		}
		rest := true
		for g := range at {
			rest = rest && len(at[g]) == 1 && len(states[g]) == len(r.cluster.Nodes)
		}
		err := errors.Join(errs...)
		if err == nil && rest && len(at) > 1 {
			return states
		}
		if err := sleep(ctx, fmt.Errorf("groups are applied up to %v: %w", at, err)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A cluster is rolled from an older build to this one, back, forward again, and finalised, node
// by node and under load with dead letters: nothing confirmed is lost, nothing comes twice, and
// all members have the same state at the end. Then the older build is refused by what is
// on its own disk, and the node comes back with this one.
func TestRoll(t *testing.T) {
	if testing.Short() {
		t.Skip("builds old versions and starts processes: not in short mode")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	binary := build(t, root, filepath.Join(t.TempDir(), "new"))
	for _, from := range []Old{First(), Last()} {
		t.Run(fmt.Sprint("from version ", from.Reads), func(t *testing.T) {
			r := &roll{t: t, old: from.Build(t, root), new: binary, reads: from.Reads}
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			r.run(ctx)
			r.refused(ctx, from.refused)
		})
	}
}

// run rolls the cluster to and fro while clients work, and judges what they saw.
func (r *roll) run(ctx context.Context) {
	t := r.t
	t.Helper()
	var err error
	if r.cluster, err = chaos.NewCluster(chaos.ClusterConfig{
		Binary: r.old, Dir: t.TempDir(), Name: clusterName, Settings: "timeouts:\n  suspect: 2s\n", Managed: true,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cluster.Kill)
	if err := r.cluster.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if r.client, err = client.Dial(ctx, client.Config{Addresses: r.cluster.Addresses()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)

	events, err := run.Run(ctx, run.Config{
		Cluster: &local.Cluster{Cluster: r.cluster}, Workloads: []workload.Kind{workload.Publish()}, Length: testTimeout, Rate: 300, Log: t.Logf,
		Meanwhile: r.toAndFro,
	})
	if err != nil {
		t.Fatal(err)
	}
	if report := check.Check(events); report.Verdict != check.Valid || report.Counts.DeadLetters == 0 || report.Counts.Faults != 1 {
		t.Errorf("%s", report.String())
	} else {
		t.Logf("%d confirmed, %d redelivered, %d dead letters", report.Counts.Confirmed, report.Counts.Redelivered, report.Counts.DeadLetters)
	}
	for g, of := range r.states(ctx) {
		for n, state := range of {
			if state == "" || state != of["n1"] {
				t.Errorf("group %d: node %s has the state %q, n1 %q", g, n, state, of["n1"])
			}
		}
	}
}

// toAndFro rolls the nodes to the new build, back, forward again, and finalises. Messages with a past, which the old
// build may not know, are refused before that in this case, and taken after it in any.
func (r *roll) toAndFro(ctx context.Context) error {
	if err := r.all(ctx, r.new); err != nil {
		return err
	}
	kept, err := r.backUp(ctx)
	if err != nil {
		return err
	}
	if r.reads < uint32(catalog.VersionBackups) {
		if err := r.restore(ctx, kept); client.ClassOf(err) != client.PreconditionFailed || !strings.Contains(err.Error(), "version 6") {
			return fmt.Errorf("a restore before the version is finalised: %w", err)
		}
	}
	for _, to := range []string{r.old, r.new} {
		if err := r.all(ctx, to); err != nil {
			return err
		}
	}
	if err := r.finalise(ctx); err != nil {
		return err
	}
	return r.restore(ctx, kept)
}

// refused starts the older build on what the new one has finalised: it does not become ready, and the node's log says
// why. With the new build the node comes back.
func (r *roll) refused(ctx context.Context, why string) {
	t := r.t
	t.Helper()
	n := r.cluster.Nodes[2]
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	n.Use(r.old)
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	err := n.WaitReady(ctx)
	if _, runs := n.Running(); err == nil || runs {
		t.Errorf("the older build on finalised files runs: %v", err)
	}
	if log, err := os.ReadFile(n.LogFile()); err != nil || !strings.Contains(string(log), why) {
		t.Errorf("the older build does not say why it ends: %v\n%s", err, log[max(0, len(log)-2000):])
	}
	n.Use(r.new)
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Error(err)
	}
}

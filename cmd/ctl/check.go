package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// problem is one thing that a check has found.
type problem struct {
	Check   string `api:"check"`
	Object  string `api:"object"`
	Problem string `api:"problem"`
	Remedy  string `api:"remedy"`
}

// newCheck makes `check`, whose commands exit with 1 and list what is wrong if anything is: for probes, for
// CI, and before a node is taken down.
func newCheck(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "Look for problems; exit code 1 if there is one"}
	cmd.AddCommand(
		newCheckOf(s, "ready", "[NODE]", "Is each node there, started, and not drained?", func(_ context.Context, l *look) ([]problem, error) {
			return l.ready(), nil
		}),
		newCheckOf(s, "quorum-critical", "[NODE]", "Which queues would stand still without the node, or without any one node?", func(ctx context.Context, l *look) ([]problem, error) {
			return l.quorumCritical(ctx)
		}),
		newCheckOf(s, "alarms", "[NODE]", "Does a node lack disk space, hang in a write, or show a wrong time?", func(_ context.Context, l *look) ([]problem, error) {
			return l.alarms(), nil
		}),
		newCheckOf(s, "versions", "", "Do all nodes run one version, and is it finalised?", func(_ context.Context, l *look) ([]problem, error) {
			return l.versions(), nil
		}),
		newCheckCertificates(s), newCheckAll(s),
	)
	return cmd
}

// look is what checks look at.
type look struct {
	client *client.Client
	status client.ClusterStatus // with details
	node   string               // "": all
	within time.Duration        // of certificates' ends
}

// newCheckOf makes a command of one check. args is "" or "[NODE]".
func newCheckOf(s *session, name, args, short string, find func(context.Context, *look) ([]problem, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Args: exactArgs(), Example: "  quoratectl check " + name,
		RunE: func(cmd *cobra.Command, args []string) error { return s.check(cmd, args, 0, find) },
	}
	if args != "" {
		cmd.Use, cmd.Args, cmd.Example = name+" "+args, optionalArg("NODE"), cmd.Example+" node-1"
	}
	return cmd
}

// defaultWithin is how long before its end a certificate is a problem.
const defaultWithin = 30 * 24 * time.Hour

// newCheckCertificates makes `check certificates`.
func newCheckCertificates(s *session) *cobra.Command {
	within := defaultWithin
	cmd := &cobra.Command{
		Use: "certificates", Short: "Which certificates for clients end soon?", Args: exactArgs(),
		Example: "  quoratectl check certificates --within 336h --tls-ca ca.crt",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !s.usesTLS() {
				return usageError{errors.New("certificates are looked at over TLS: give --tls, or --tls-ca")}
			}
			return s.check(cmd, args, within, func(ctx context.Context, l *look) ([]problem, error) { return l.certificates(ctx), nil })
		},
	}
	addWithin(cmd, &within)
	return cmd
}

// newCheckAll makes `check all`. Queues that one node more would stop are a problem only where a node is missing: with
// all nodes up, a queue with one member is one by its declaration.
func newCheckAll(s *session) *cobra.Command {
	within := defaultWithin
	cmd := &cobra.Command{
		Use: "all", Short: "All of these; certificates only over TLS, and queues only if a node is not there", Args: exactArgs(),
		Example: "  quoratectl check all -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.check(cmd, args, within, func(ctx context.Context, l *look) ([]problem, error) {
				away := l.ready()
				all := slices.Concat(away, l.alarms(), l.versions())
				if s.usesTLS() {
					all = append(all, l.certificates(ctx)...)
				}
				if len(away) == 0 {
					return all, nil
				}
				critical, err := l.quorumCritical(ctx)
				return append(all, critical...), err
			})
		},
	}
	addWithin(cmd, &within)
	return cmd
}

func addWithin(cmd *cobra.Command, within *time.Duration) {
	cmd.Flags().DurationVar(within, "within", *within, "a certificate that ends sooner is a problem")
}

// check runs a check and prints what it finds, of which there may be nothing.
func (s *session) check(cmd *cobra.Command, args []string, within time.Duration, find func(context.Context, *look) ([]problem, error)) error {
	var found []problem
	err := s.with(cmd, func(ctx context.Context, c *client.Client) (err error) {
		l := &look{client: c, within: within}
		if l.status, err = c.ClusterDetails(ctx); err != nil {
			return err
		}
		if len(args) == 1 {
			l.node = args[0]
			if !slices.ContainsFunc(l.status.Nodes, func(n client.ClusterNode) bool { return n.ID == l.node }) {
				return fmt.Errorf("node %q is not in the cluster: see quoratectl nodes ls", l.node)
			}
		}
		found, err = find(ctx, l)
		return err
	})
	if err != nil {
		return err
	}
	if s.output == outputTable && len(found) == 0 {
		printf(cmd.OutOrStdout(), "ok\n")
		return nil
	}
	err = printList(s, cmd.OutOrStdout(), []string{"check", "object", "problem", "remedy"}, found, func(p problem) []string {
		return []string{p.Check, p.Object, p.Problem, p.Remedy}
	})
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%d problems were found", len(found))
	}
	return err
}

// nodes returns those that are looked at.
func (l *look) nodes() []client.ClusterNode {
	return slices.DeleteFunc(slices.Clone(l.status.Nodes), func(n client.ClusterNode) bool { return l.node != "" && n.ID != l.node })
}

// ready finds nodes that serve no clients.
func (l *look) ready() (found []problem) {
	remedies := map[string]string{
		"refused":  "see quoratectl nodes ls and the node's log",
		"silent":   "it gossips and does not answer: look at its log, its load and the network",
		"down":     "start it with its disk",
		"draining": "restart it, or quoratectl nodes undrain",
	}
	for _, n := range l.nodes() {
		state := nodeState(n)
		if state == "running" {
			continue
		}
		remedy, is := remedies[state]
		if !is {
			remedy = "it starts: see quoratectl nodes status"
		}
		found = append(found, problem{"ready", "node " + n.ID, "it is " + state, remedy})
	}
	if l.status.CatalogLeader == "" {
		found = append(found, problem{"ready", "catalog", "it has no leader: nothing can be declared", "see that a majority of the nodes runs and that they reach each other"})
	}
	return found
}

// quorumCritical finds queues that lack a majority, or would if one node more went, be it the given one.
func (l *look) quorumCritical(ctx context.Context) (found []problem, err error) {
	for q, err := range l.client.Queues(ctx, client.ListQueuesRequest{WithStats: true}) {
		if err != nil {
			return nil, err
		}
		if p, is := critical(q, l.node); is {
			found = append(found, p)
		}
	}
	return found, nil
}

// critical reports whether a queue stands still, or would without the node; "": without any one node.
func critical(q client.QueueInfo, node string) (problem, bool) {
	p := problem{Check: "quorum-critical", Object: fmt.Sprintf("queue %q in vhost %q", q.Name, q.VHost)}
	majority := len(q.Members)/2 + 1
	switch spare := len(q.Online) - majority; {
	case spare < 0:
		p.Problem = fmt.Sprintf("it stands still: of its members %q only %q are there", q.Members, q.Online)
		p.Remedy = "start the other nodes"
	case spare > 0, node != "" && !slices.Contains(q.Online, node):
		return p, false
	case len(q.Members) == 1:
		p.Problem = fmt.Sprintf("its only member is on node %q", q.Members[0])
		p.Remedy = "give it more members: see quoratectl queues grow"
	default:
		p.Problem = fmt.Sprintf("it stands still without one more of %q", q.Online)
		p.Remedy = fmt.Sprintf("take down none of them before all of %q are there", q.Members)
	}
	return p, true
}

// alarms finds nodes that take no messages, or soon will not.
func (l *look) alarms() (found []problem) {
	for _, n := range l.nodes() {
		of := "node " + n.ID
		if d := n.Disk; d != nil && d.Pressure != "none" {
			found = append(found, problem{
				"alarms", of, fmt.Sprintf("%d bytes are free on %s, which is below its limit %s (%d bytes)", d.FreeBytes, d.Path, d.Pressure, map[string]uint64{"low": d.LowBytes, "floor": d.FloorBytes}[d.Pressure]),
				"free space there, make the volume larger, or move queues to other nodes",
			})
		}
		if d := n.Disk; d != nil && d.Hangs > 0 {
			found = append(found, problem{"alarms", of, fmt.Sprintf("a write to %s hangs for %v", d.Path, d.Hangs), "look at the disk"})
		}
		if c := n.Clock; c != nil && c.Off {
			found = append(found, problem{"alarms", of, fmt.Sprintf("its wall clock is %v off", c.Offset), "check that NTP runs and is synchronised there"})
		}
	}
	return found
}

// buildsOf returns the builds of the nodes that answer, sorted.
func buildsOf(nodes []client.ClusterNode) (builds []string) {
	for _, n := range nodes {
		if n.Start != nil && !slices.Contains(builds, n.Version) {
			builds = append(builds, n.Version)
		}
	}
	slices.Sort(builds)
	return builds
}

// versions finds an upgrade that is under way.
func (l *look) versions() (found []problem) {
	newest := l.status.FinalizedVersion
	for _, n := range l.status.Nodes {
		newest = max(newest, n.ReadsVersion)
	}
	if builds := buildsOf(l.status.Nodes); len(builds) > 1 {
		found = append(found, problem{"versions", "cluster", fmt.Sprintf("nodes run %q", builds), "finish the upgrade, node by node"})
	}
	if newest > l.status.FinalizedVersion {
		found = append(found, problem{
			"versions", "cluster", fmt.Sprintf("version %d is finalised, nodes can read %d", l.status.FinalizedVersion, newest),
			"once all nodes run the newer build: quoratectl upgrade finalize",
		})
	}
	return found
}

// certificates finds nodes whose certificate for clients ends soon, or cannot be looked at.
func (l *look) certificates(ctx context.Context) (found []problem) {
	for _, n := range l.status.Nodes {
		ends, err := certificateEnd(ctx, n.ClientAddress)
		p := problem{Check: "certificates", Object: "node " + n.ID}
		left := time.Until(ends)
		switch {
		case err != nil:
			p.Problem, p.Remedy = err.Error(), "see that the node runs, and that it can be reached from here"
		case left > l.within:
			continue
		case left <= 0:
			p.Problem, p.Remedy = fmt.Sprintf("its certificate for clients ended on %s", ends.UTC().Format(time.RFC3339)), "replace the files of tls.client"
		default:
			p.Problem, p.Remedy = fmt.Sprintf("its certificate for clients ends on %s, in %d days", ends.UTC().Format(time.RFC3339), int(left.Hours()/24)), "replace the files of tls.client"
		}
		found = append(found, p)
	}
	return found
}

// certificateEnd returns when the certificate that a server shows ends. It is not verified: what matters is its end,
// also where that has passed.
func certificateEnd(ctx context.Context, address string) (time.Time, error) {
	var ends time.Time
	d := tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, NextProtos: []string{"h2"}, //nolint:gosec // nothing is sent
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) > 0 {
				ends = c.PeerCertificates[0].NotAfter
			}
			return nil
		},
	}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	if !ends.IsZero() {
		return ends, nil // a node that asks for a certificate may have refused this client after that
	}
	return ends, err
}

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
	"github.com/quorate/quorate/internal/checks"
)

// newCheck makes `check`, whose commands exit with 1 and list what is wrong if anything is: for probes, for
// CI, and before a node is taken down.
func newCheck(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "Look for problems; exit code 1 if there is one"}
	cmd.AddCommand(
		newCheckOf(s, "ready", "[NODE]", "Is each node there, started, and not drained?", func(_ context.Context, l *look) ([]checks.Problem, error) {
			return l.Ready(), nil
		}),
		newCheckOf(s, "quorum-critical", "[NODE]", "Which queues would stand still without the node, or without any one node?", func(ctx context.Context, l *look) ([]checks.Problem, error) {
			return l.QuorumCritical(ctx)
		}),
		newCheckOf(s, "alarms", "[NODE]", "Does a node lack disk space, hang in a write, or show a wrong time?", func(_ context.Context, l *look) ([]checks.Problem, error) {
			return l.Alarms(), nil
		}),
		newCheckOf(s, "versions", "", "Do all nodes run one version, and is it finalised?", func(_ context.Context, l *look) ([]checks.Problem, error) {
			return l.Versions(), nil
		}),
		newCheckCertificates(s), newCheckAll(s),
	)
	return cmd
}

// look is what checks examine, and certificates too.
type look struct {
	checks.Look

	within time.Duration // of certificates' ends
}

// checkFlags holds the flags of a check.
type checkFlags struct {
	within time.Duration // of certificates' ends
	wait   time.Duration // for problems to go; 0: look once
}

// addWait adds the flag of checks whose problems may go by themselves.
func (f *checkFlags) addWait(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "look again until there is no problem, but no longer than this time; what it waits for is on standard error")
}

// addWithin adds the flag of checks of certificates.
func (f *checkFlags) addWithin(cmd *cobra.Command) {
	f.within = defaultWithin
	cmd.Flags().DurationVar(&f.within, "within", f.within, "a certificate that ends sooner is a problem")
}

// newCheckOf makes a command of one check. args is "" or "[NODE]".
func newCheckOf(s *session, name, args, short string, find func(context.Context, *look) ([]checks.Problem, error)) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use: name, Short: short, Args: exactArgs(), Example: "  quoratectl check " + name,
		RunE: func(cmd *cobra.Command, args []string) error { return s.check(cmd, args, f, find) },
	}
	if args != "" {
		cmd.Use, cmd.Args, cmd.Example = name+" "+args, optionalArg("NODE"), cmd.Example+" node-1"
	}
	cmd.Example += " --wait 10m"
	f.addWait(cmd)
	return cmd
}

// defaultWithin is how long before its end a certificate is a problem.
const defaultWithin = 30 * 24 * time.Hour

// newCheckCertificates makes `check certificates`.
func newCheckCertificates(s *session) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use: "certificates", Short: "Which certificates for clients end soon?", Args: exactArgs(),
		Example: "  quoratectl check certificates --within 336h --tls-ca ca.crt",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !s.usesTLS() {
				return usageError{errors.New("certificates are looked at over TLS: give --tls, or --tls-ca")}
			}
			return s.check(cmd, args, f, func(ctx context.Context, l *look) ([]checks.Problem, error) { return l.certificates(ctx), nil })
		},
	}
	f.addWithin(cmd)
	return cmd
}

// newCheckAll makes `check all`. Queues that one node more would stop are a problem only where a node is missing: with
// all nodes up, a queue with one member is one by its declaration. Members that are not rebuilt yet always are one.
func newCheckAll(s *session) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use: "all", Short: "All of these; certificates only over TLS, and queues only if a node is not there", Args: exactArgs(),
		Example: "  quoratectl check all -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.check(cmd, args, f, func(ctx context.Context, l *look) ([]checks.Problem, error) {
				away := l.Ready()
				all := slices.Concat(away, l.Alarms(), l.Versions())
				if s.usesTLS() {
					all = append(all, l.certificates(ctx)...)
				}
				if len(away) == 0 {
					return append(all, l.Rebuilding()...), nil
				}
				critical, err := l.QuorumCritical(ctx)
				return append(all, critical...), err
			})
		},
	}
	f.addWithin(cmd)
	f.addWait(cmd)
	return cmd
}

// check runs a check and prints what it finds, of which there may be nothing.
func (s *session) check(cmd *cobra.Command, args []string, f checkFlags, find func(context.Context, *look) ([]checks.Problem, error)) error {
	if f.wait < 0 {
		return usageError{fmt.Errorf("--wait is %v: must not be negative", f.wait)}
	}
	found, err := awaitNone(cmd.Context(), f.wait, cmd.ErrOrStderr(), func() ([]checks.Problem, error) { return s.look(cmd, args, f.within, find) })
	if err != nil {
		return err
	}
	if s.output == outputTable && len(found) == 0 {
		printf(cmd.OutOrStdout(), "ok\n")
		return nil
	}
	err = printList(s, cmd.OutOrStdout(), []string{"check", "object", "problem", "remedy"}, found, func(p checks.Problem) []string {
		return []string{p.Check, p.Object, p.Problem, p.Remedy}
	})
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%d problems were found", len(found))
	}
	return err
}

// look looks once for the problems of a check.
func (s *session) look(cmd *cobra.Command, args []string, within time.Duration, find func(context.Context, *look) ([]checks.Problem, error)) (found []checks.Problem, err error) {
	err = s.with(cmd, func(ctx context.Context, c *client.Client) (err error) {
		l := &look{Look: checks.Look{Client: c}, within: within}
		if l.Status, err = c.ClusterDetails(ctx); err != nil {
			return err
		}
		if len(args) == 1 {
			l.Node = args[0]
			if !slices.ContainsFunc(l.Status.Nodes, func(n client.ClusterNode) bool { return n.ID == l.Node }) {
				return fmt.Errorf("node %q is not in the cluster: see quoratectl nodes ls", l.Node)
			}
		}
		found, err = find(ctx, l)
		return err
	})
	return found, err
}

// certificates finds nodes whose certificate for clients ends soon, or cannot be examined.
func (l *look) certificates(ctx context.Context) (found []checks.Problem) {
	for _, n := range l.Status.Nodes {
		ends, err := certificateEnd(ctx, n.ClientAddress)
		p := checks.Problem{Check: "certificates", Object: "node " + n.ID}
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

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster/recovery"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/id"
)

// printed is the name of a report that is printed: where no file can be written, such as in a container.
const printed = "-"

// recoverFlags are the flags of quorate recover.
type recoverFlags struct {
	file       string
	lost       []string
	survivors  []string
	report     string
	acceptLoss string
}

// newRecover makes `quorate recover`, which gives up nodes that are lost for good. It runs on a
// remaining node that is stopped.
func newRecover() *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Continue without nodes that are lost for good, although they were the majority",
		Long: `Continue without nodes that are lost for good, although they were the majority.

Run it on each node that is left, while it is stopped. Without --accept-loss it changes
nothing and prints what would be lost. With several nodes left, run it on each with
--report FILE first, and give each the others' files as --survivor. With --report - and
without --lost the report is all that is printed.`,
		Example: "  quorate recover --config node.yaml --lost node-1 --lost node-2\n" +
			"  quorate recover --config node.yaml --lost node-1 --lost node-2 --accept-loss node-1,node-2",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "YAML file of the node")
	cmd.Flags().StringSliceVar(&f.lost, "lost", nil, "id of a node that will never come back; repeatable")
	cmd.Flags().StringSliceVar(&f.survivors, "survivor", nil, "report of another remaining node; repeatable")
	cmd.Flags().StringVar(&f.report, "report", "", "write this node's report to a file; -: print it")
	cmd.Flags().StringVar(&f.acceptLoss, "accept-loss", "", "the ids of all lost nodes again, separated by commas: carry the plan out")
	return cmd
}

// run opens the data directory, which fails while the node runs, and does what the flags ask for.
// It changes nothing without --accept-loss.
func (f *recoverFlags) run(out io.Writer) error {
	if len(f.lost) == 0 && f.report == "" {
		return errors.New("name the nodes that are lost for good with --lost, or write a report with --report")
	}
	cfg, err := config.Load(f.file, os.Environ(), nil)
	if err != nil {
		return err
	}
	rc := recovery.Config{
		Name: cfg.Cluster.Name, Node: id.NodeID(cfg.NodeID), DataDir: cfg.DataDir,
	}
	for _, n := range f.lost {
		rc.Lost = append(rc.Lost, id.NodeID(n))
	}
	if rc.Reports, err = readReports(f.survivors); err != nil {
		return err
	}
	r, err := recovery.Open(rc)
	if err != nil {
		return err
	}
	return errors.Join(f.act(out, r), r.Close())
}

// act writes the report, prints the plan, and carries it out if the loss is accepted.
func (f *recoverFlags) act(out io.Writer, r *recovery.Recovery) error {
	if f.report != "" {
		text, err := json.MarshalIndent(r.Report, "", "  ")
		if err == nil && f.report == printed {
			_, err = fmt.Fprintf(out, "%s\n", text)
		} else if err == nil {
			err = os.WriteFile(f.report, append(text, '\n'), 0o600)
		}
		if err != nil || len(f.lost) == 0 && f.report == printed {
			return err
		}
	}
	if len(f.lost) == 0 {
		_, err := fmt.Fprintf(out, "report of node %s written to %s: give it to quorate recover on the other remaining nodes\n", r.Report.Node, f.report)
		return err
	}
	if err := printRecovery(out, r); err != nil {
		return err
	}
	if f.acceptLoss == "" {
		_, err := fmt.Fprintf(out, "\nNothing was changed. To do this, add: --accept-loss %s\n", strings.Join(f.lost, ","))
		return err
	}
	typed := strings.Split(f.acceptLoss, ",")
	slices.Sort(typed)
	if !slices.Equal(typed, slices.Sorted(slices.Values(f.lost))) {
		return fmt.Errorf("--accept-loss is %q: it must name the same nodes as --lost: %s", f.acceptLoss, strings.Join(f.lost, ","))
	}
	if err := r.Run(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nDone. Start node %s. What the lost nodes had stored is over: each joins again, as a new node does, with an empty data directory.\n", r.Report.Node)
	return err
}

// readReports reads the reports of other survivors, by which the newest data is found.
func readReports(files []string) (all []recovery.Report, err error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var p recovery.Report
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("%s is not a report of quorate recover: %w", name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// printRecovery prints what would be lost.
func printRecovery(out io.Writer, r *recovery.Recovery) error {
	t := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) } // Flush returns the error
	row("GROUP", "LOST", "LEFT: LAST TERM/ENTRY", "WHAT HAPPENS")
	whole, again := 0, 0
	for i := range r.Groups {
		g := &r.Groups[i]
		if len(g.Lost) == 0 && g.Action == recovery.Nothing && len(g.Bare) == 0 {
			whole++
			continue
		}
		if g.Action == recovery.Here || g.Action == recovery.Elsewhere {
			again++
		}
		row(g.String(), join(g.Lost), left(g), happens(g))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d more lose nothing. Of the %d that go on with what is left, entries beyond the last one shown are lost,\n"+
		"confirmed messages among them, if only lost nodes had them; what is shown counts from then on, also what was\n"+
		"never confirmed: messages that a client has sent again may be there twice, and acknowledged ones may come back.\n", whole, again)
	if err == nil && len(r.Forgotten) > 0 {
		_, err = fmt.Fprintf(out, "The cluster forgets %s for good.\n", join(r.Forgotten))
	}
	return err
}

// left describes what the members that are left have.
func left(g *recovery.Group) string {
	var logs []string
	for _, n := range slices.Sorted(maps.Keys(g.Logs)) {
		logs = append(logs, fmt.Sprintf("%s: %d/%d", n, g.Logs[n].LastTerm, g.Logs[n].LastIndex))
	}
	for _, n := range g.Bare {
		logs = append(logs, fmt.Sprintf("%s: nothing", n))
	}
	for _, n := range g.Missing {
		logs = append(logs, fmt.Sprintf("%s: no report", n))
	}
	return strings.Join(logs, ", ")
}

// happens describes what is done about a group. Its majority may have lost its data: see recovery.Nothing.
func happens(g *recovery.Group) string {
	if g.Action == recovery.Nothing && len(g.Logs)+len(g.Missing) <= len(g.Members)/2 {
		return fmt.Sprintf("%s, unless the log of %s is lost: then run this on the others with --lost %s too", g.Action, join(g.Bare), join(g.Bare))
	}
	return string(g.Action)
}

// join joins node ids with commas.
func join(ids []id.NodeID) string {
	out := make([]string, len(ids))
	for i, n := range ids {
		out[i] = string(n)
	}
	return strings.Join(out, ",")
}

// Package imports makes what a document of definitions describes, on request and when a node starts, and writes such a
// document (VH-9). What the document is, and what of it is to be made, is computed by package definitions. Definitions
// may be used concurrently; errors are of package failure.
package imports

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/definitions"
)

// Config is what definitions are imported with.
type Config struct {
	Cluster  *cluster.Cluster
	Serving  *serving.Node
	Logins   *identity.Logins
	Audit    *audit.Log
	Commands *audit.Commands
	AtStart  AtStart
	Log      *slog.Logger
}

// Definitions imports and exports. All methods may be called concurrently.
type Definitions struct {
	cluster  *cluster.Cluster
	serving  *serving.Node
	logins   *identity.Logins
	audit    *audit.Log
	commands *audit.Commands
	atStart  AtStart
	log      *slog.Logger
	imported atomic.Bool // the document of atStart
}

// New returns those of a node. ImportAtStart is to be run beside.
func New(c Config) *Definitions {
	return &Definitions{
		cluster: c.Cluster, serving: c.Serving, logins: c.Logins, audit: c.Audit, commands: c.Commands, atStart: c.AtStart, log: c.Log,
	}
}

// Request is what to import.
type Request struct {
	Document []byte
	VHost    string // only what lies in it; "": all
	DryRun   bool   // only plan
}

// Export returns the document of all that the cluster has besides messages, or
// of one vhost unless that is "" (VH-9, ST-4).
func (d *Definitions) Export(vhost string) ([]byte, error) {
	v, err := d.serving.ViewOf(vhost)
	if err != nil {
		return nil, err
	}
	name, version := d.cluster.Name()
	return definitions.Append(nil, v, vhost, definitions.Origin{Cluster: name, Version: version})
}

// Import makes what a document describes and is not there (VH-9). report gets the
// objects as they are done, in batches, one call at a time; total is the number of all.
// Nothing is taken of a document with a fault of form. An error after the first batch is the reason
// why the import was given up; a repeat goes on where it was.
func (d *Definitions) Import(ctx context.Context, r Request, report func(done []Imported, total int)) (Summary, error) {
	if _, err := d.serving.ViewOf(r.VHost); err != nil {
		return Summary{}, err
	}
	doc, err := definitions.Parse(r.Document, r.VHost)
	if err != nil {
		return Summary{}, faultyDocument(err)
	}
	by, err := d.logins.DeclaredBy(ctx)
	if err != nil {
		return Summary{}, err
	}
	doc.DeclareBy(by)
	v := d.cluster.View()
	run := importing{cluster: d.cluster, audit: d.audit, commands: d.commands, steps: definitions.Plan(doc, v, vet), report: report}
	run.summary.Total = len(run.steps)
	if r.DryRun {
		for j := range run.steps {
			run.add(planned(v, &run.steps[j]), nil)
		}
		run.flush()
		return run.summary, nil
	}
	err = run.all(ctx, v)
	noteImported(audit.NotesOf(ctx), &run.summary)
	return run.summary, err
}

// Package imports creates the objects that a document of definitions describes, on request and when a node starts. It
// also exports such a document (VH-9). Package definitions defines the document, and computes what an import has to
// create. Definitions may be used concurrently; errors are those of package failure.
package imports

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/definitions"
)

// Config has the settings and parts of Definitions.
type Config struct {
	Cluster  *cluster.Cluster
	Serving  *serving.Node
	Logins   *identity.Logins
	Audit    *audit.Log
	Commands *audit.Commands
	AtStart  AtStart
	Log      *slog.Logger
}

// Definitions imports and exports documents. All methods may be called concurrently.
type Definitions struct {
	cluster  *cluster.Cluster
	serving  *serving.Node
	logins   *identity.Logins
	audit    *audit.Log
	commands *audit.Commands
	atStart  AtStart
	log      *slog.Logger
	tried    atomic.Bool  // whether the document of atStart was gone through
	waiting  atomic.Int64 // objects of that document that this node could not create so far
}

// New returns the Definitions of a node. The caller must also carry out AtStart.
func New(c Config) *Definitions {
	return &Definitions{
		cluster: c.Cluster, serving: c.Serving, logins: c.Logins, audit: c.Audit, commands: c.Commands, atStart: c.AtStart, log: c.Log,
	}
}

// Request is what to import.
type Request struct {
	Document []byte
	VHost    string // import only objects of this vhost; "": all objects
	DryRun   bool   // only plan the import

	only map[string]bool // paths of the objects to create; nil: all
}

// Export returns a document with everything that the cluster has except messages, or that one vhost has if vhost is not
// "" (VH-9, ST-4).
func (d *Definitions) Export(vhost string) ([]byte, error) {
	v, err := d.serving.ViewOf(vhost)
	if err != nil {
		return nil, err
	}
	name, version := d.cluster.Name()
	return definitions.Append(nil, v, vhost, definitions.Origin{Cluster: name, Version: version})
}

// Import creates the objects that a document describes and the cluster lacks (VH-9). It reports objects in batches when
// they are done, one call of report at a time; total is the number of all objects. If the form of the document has a
// fault, Import creates nothing. An error after the first batch is why the import was given up; repeating it
// continues where it stopped.
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
	steps := definitions.Plan(doc, v, vet)
	if r.only != nil {
		steps = slices.DeleteFunc(steps, func(s definitions.Step) bool { return !r.only[s.Path] })
	}
	run := importing{cluster: d.cluster, audit: d.audit, commands: d.commands, steps: steps, report: report}
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

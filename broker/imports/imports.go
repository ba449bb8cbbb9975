// Package imports makes what a document of definitions describes, on request and when a node starts, and writes such a
// document (VH-9). What the document is, and what of it is to be made, is computed by package definitions. Definitions
// may be used concurrently; errors are of package failure.
package imports

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/definitions"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
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

const (
	// importWorkers bounds how many objects of an import are made at once.
	importWorkers = 16
	// maxImportFailures is the number of objects that could not be made for now, after which
	// an import is given up.
	maxImportFailures = 32
)

// MaxBytes bounds the document of an import, in bytes.
const MaxBytes = definitions.MaxBytes

// Request is what to import.
type Request struct {
	Document []byte
	VHost    string // only what lies in it; "": all
	DryRun   bool   // only plan
}

// Outcome is what became of an object of an import, or would.
type Outcome uint8

// The outcomes.
const (
	Created   Outcome = iota
	Unchanged         // there already, just so
	Different         // there with other properties, and left
	Refused           // cannot be made
	Skipped           // nothing that an import makes
	Failed            // could not be made for now
	outcomes
)

// Imported is what became of one object.
type Imported struct {
	Kind        string
	VHost, Name string
	Path        string // in the document
	Outcome     Outcome
	Reason      string
	Warnings    []string // what is not as the document has it (VH-13)
}

// Summary counts objects by Outcome.
type Summary struct {
	Total  int
	Counts [outcomes]int
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

// Import makes what a document describes and is not there (VH-9). told gets the
// objects as they are done, in batches, one call at a time; total is the number of all.
// Nothing is taken of a document with a fault of form. An error after the first batch is the reason
// why the import was given up; a repeat goes on where it was.
func (d *Definitions) Import(ctx context.Context, r Request, told func(done []Imported, total int)) (Summary, error) {
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
	run := importing{d: d, steps: definitions.Plan(doc, v, vet), told: told}
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

// faultyDocument is the refusal of a document whose form has faults; it names where the first one is.
func faultyDocument(err error) error {
	e := &failure.Error{Class: failure.PreconditionFailed, Kind: "definitions", Reason: "nothing is imported: " + err.Error(), Cause: err}
	var faults *definitions.Faults
	if errors.As(err, &faults) && len(faults.List) > 0 {
		e.Arg = faults.List[0].Path
	}
	return e
}

// check returns what is wrong with the form of a document.
func check(document []byte) error {
	_, err := definitions.Parse(document, "")
	return err
}

// vet checks of a new object what the catalog does not.
func vet(o *definitions.Object) error {
	switch c := o.Command.(type) {
	case *catalog.PutVHost:
		return names.CheckPlain(c.Name, "", administration.AboutVHost(c.Name))
	case *catalog.PutUser:
		if err := names.CheckPlain(c.Name, ":", administration.AboutUser(c.Name)); err != nil {
			return err
		}
		u := administration.PutUser{Name: c.Name, Password: o.Password, Hash: c.PasswordHash, Algorithm: c.Algorithm}
		return u.Check(administration.AboutUser(c.Name))
	case *catalog.SetPermission:
		return administration.CheckPatterns(administration.AboutPermission(c.VHost, c.User),
			administration.NamedPattern{Arg: "configure", Text: c.Configure}, administration.NamedPattern{Arg: "write", Text: c.Write}, administration.NamedPattern{Arg: "read", Text: c.Read})
	case *catalog.SetTopicPermission:
		return administration.CheckPatterns(administration.AboutTopicPermission(c.VHost, c.User), administration.NamedPattern{Arg: "write", Text: c.Write}, administration.NamedPattern{Arg: "read", Text: c.Read})
	case *catalog.PutPolicy:
		return administration.CheckPolicy(&c.Policy, failure.Error{VHost: c.VHost, Kind: "policy", Name: c.Name})
	case *catalog.DeclareExchange:
		return names.Check(c.Name, failure.Error{VHost: c.VHost, Kind: "exchange", Name: c.Name})
	case *catalog.DeclareQueue:
		_, err := resolveImported(c)
		return err
	case *catalog.Bind:
		return names.CheckKey(c.Key, failure.Error{VHost: c.VHost, Kind: "binding", Name: names.Binding(c.Source, c.Destination)})
	case *catalog.PutParameter:
		if c.VHost == "" && c.Component != "" { // those are the broker's own
			return &failure.Error{Class: failure.AccessRefused, Kind: "parameter", Name: c.Name, Reason: "is the broker's own"}
		}
	}
	return nil
}

// resolveImported checks a queue of a document, whose type is known.
func resolveImported(c *catalog.DeclareQueue) (argument.Settings, error) {
	about := failure.Error{VHost: c.VHost, Kind: "queue", Name: c.Name}
	if err := names.Check(c.Name, about); err != nil {
		return argument.Settings{}, err
	}
	args := c.Arguments
	if _, named := args.Get(argument.QueueType); !named {
		args = append(message.Table{{Name: argument.QueueType, Value: message.String(string(c.Type))}}, args...)
	}
	e, err := policy.ResolveDeclaration(policy.Declaration{
		Name: c.Name, Durable: c.Durable, Exclusive: c.Exclusive, AutoDelete: c.AutoDelete, Arguments: args,
	}, c.Type)
	if err != nil {
		return e, failure.FromArgument(err, about)
	}
	return e, nil
}

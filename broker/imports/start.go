package imports

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
)

// The global parameters about documents that nodes import when they start.
const (
	definitionsComponent = "definitions"
	importBarrier        = "barrier"
	importedName         = "imported"  // the hash of the document that was imported last
	importingName        = "importing" // hash of the document and node of an import under way
)

const (
	// importRetry is the interval at which a node tries to import the document.
	importRetry = 500 * time.Millisecond
	// maxImportLines limits the log lines about objects of one import.
	maxImportLines = 100
)

// Pending reports whether the document of the configuration still has to be imported.
func (d *Definitions) Pending() bool { return d.atStart.Document != nil && !d.imported.Load() }

// ImportAtStart imports the document of the configuration, if there is one. It tries again until the cluster can accept
// it. It skips a document that the cluster has already imported. While another live node imports the same document, it
// waits for that node.
func (d *Definitions) ImportAtStart(ctx context.Context) {
	if d.atStart.Document == nil {
		return
	}
	tick := time.NewTicker(importRetry)
	defer tick.Stop()
	logged := false
	for {
		done, err := d.tryImport(ctx)
		if done {
			d.imported.Store(true)
			return
		}
		if err != nil && ctx.Err() == nil && !logged {
			logged = true
			d.log.Info("definitions cannot be imported yet", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tryImport imports the document, unless the cluster has imported it or another live node is importing it; done reports
// that nothing is left to do. A node claims the import with a parameter, so that only one node does it.
func (d *Definitions) tryImport(ctx context.Context) (done bool, err error) {
	hash := d.atStart.hash()
	if err := d.setParameter(ctx, importBarrier, "1"); err != nil {
		return false, err // without an error, the view is now as new as the log was
	}
	v := d.cluster.View()
	if last, ok := v.Parameter("", definitionsComponent, importedName); ok && last.Value == hash && !d.atStart.Always {
		d.log.Info("definitions are unchanged since they were imported", "hash", hash)
		return true, nil
	}
	status, err := d.cluster.Status(ctx)
	if err != nil {
		return false, err
	}
	mine := hash + " " + lifeOf(string(status.Node), uint64(status.Epoch))
	if claim, ok := v.Parameter("", definitionsComponent, importingName); ok && claim.Value != mine && claimLives(claim.Value, hash, &status) {
		return false, nil
	}
	if err := d.setParameter(ctx, importingName, mine); err != nil {
		return false, err
	}
	err = d.audit.ByItself(ctx, audit.Act{Operation: audit.OpDefinitionsImport, Kind: "definitions", Name: hash}, func(ctx context.Context) error {
		return d.importHere(ctx, hash)
	})
	if err != nil {
		return false, err
	}
	return true, d.setParameter(ctx, importedName, hash)
}

// lifeOf names one life of a node.
func lifeOf(node string, epoch uint64) string { return node + " " + strconv.FormatUint(epoch, 10) }

// claimLives reports whether a claim is for the document with that hash and belongs to a node that is alive.
func claimLives(claim, hash string, s *cluster.Status) bool {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Alive && claim == hash+" "+lifeOf(string(n.ID), uint64(n.Epoch)) {
			return true
		}
	}
	return false
}

// setParameter commits one of the global parameters about imports. When it returns, this node's view has the parameter.
func (d *Definitions) setParameter(ctx context.Context, name, value string) error {
	_, err := d.commands.Propose(ctx, failure.Error{Kind: "parameter", Name: name}, &catalog.PutParameter{Parameter: catalog.Parameter{
		Component: definitionsComponent, Name: name, Value: value,
	}}, nil)
	return err
}

// loggedAtStart returns the reason to log an object: it was not imported, or was created with changes. For all other
// objects the reason is "".
func loggedAtStart(o *Imported) (made bool, why string) {
	warnings := strings.Join(o.Warnings, "; ")
	switch {
	case o.Outcome == Different, o.Outcome == Refused, o.Outcome == Failed:
		return false, o.Reason
	case o.Outcome == Skipped && warnings != "":
		return false, o.Reason + ": " + warnings
	case o.Outcome == Created:
		return true, warnings
	}
	return false, ""
}

// importHere imports the document with the rights of the node. It logs what differs from the document, in at most
// maxImportLines lines. If some objects could not be created now, it returns an error, so that the import is tried
// again.
func (d *Definitions) importHere(ctx context.Context, hash string) error {
	lines := 0
	summary, err := d.Import(identity.WithIdentity(ctx, identity.Itself()), Request{Document: d.atStart.Document}, func(done []Imported, _ int) {
		for i := range done {
			o := &done[i]
			made, why := loggedAtStart(o)
			if why == "" {
				continue
			}
			if lines++; lines > maxImportLines {
				continue
			}
			log := d.log.With("kind", o.Kind, "vhost", o.VHost, "name", o.Name, "path", o.Path, "reason", why)
			if made {
				log.Warn("an object of the definitions is imported with changes")
			} else {
				log.Warn("an object of the definitions is not imported")
			}
		}
	})
	n := summary.Counts
	level := slog.LevelInfo
	if lines > 0 {
		level = slog.LevelWarn
	}
	if err == nil {
		d.log.Log(ctx, level, "definitions are imported", "hash", hash, "created", n[Created], "unchanged", n[Unchanged],
			"different", n[Different], "refused", n[Refused], "skipped", n[Skipped], "failed", n[Failed])
	}
	if err == nil && n[Failed] > 0 {
		err = &failure.Error{Class: failure.Unavailable, Kind: "definitions", RetryAfter: failure.RetryAfter, Reason: strconv.Itoa(n[Failed]) + " objects could not be made for now"}
	}
	return err
}

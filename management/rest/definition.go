package rest

import (
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/imports"
)

const (
	// maxImports bounds the documents that a node takes at the same time, as each may have
	// imports.MaxBytes.
	maxImports = 2
	// documentTime is how long a client may take to send a document.
	documentTime = 10 * time.Minute
	// maxShownObjects bounds the objects that the answer to an import names.
	maxShownObjects = 1000
)

// definitionRoutes are about documents of definitions (VH-9).
func definitionRoutes() []route {
	const body = "; body: the document; the answer names what is not as in the document"
	return []route{
		{method: "GET", path: "/api/definitions", tag: administrator, serve: exportDefinitions, query: []parameter{textParam("download", "the name under which a browser keeps the document")}, says: "everything but messages, as a document with hashes of passwords"},
		{method: "POST", path: "/api/definitions", tag: administrator, act: importsDefinitions, serve: importDefinitions, query: importQuery(), says: "makes what a document has and the cluster lacks" + body},
		{method: "GET", path: "/api/definitions/{vhost}", tag: administrator, serve: exportDefinitions, query: []parameter{textParam("download", "the name under which a browser keeps the document")}, says: "what a vhost has but messages, as a document"},
		{method: "POST", path: "/api/definitions/{vhost}", tag: administrator, act: importsDefinitions, serve: importDefinitions, query: importQuery(), says: "makes what a document has of a vhost and the cluster lacks" + body},
	}
}

// importQuery is what the query of an import may have.
func importQuery() []parameter {
	return append(dryRunQuery(), flagParam("created", "names what is made, too"))
}

// exportDefinitions sends the document as it is, which may be too large to encode again.
func exportDefinitions(c *call) (reply, error) {
	document, err := c.api.Broker.Definitions.Export(c.vhost())
	if err != nil {
		return reply{}, err
	}
	if name := c.text("download"); name != "" {
		c.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	}
	c.w.Header().Set("Content-Type", "application/json")
	if _, err := c.w.Write(document); err != nil {
		c.api.Logger.Debug("definitions could not be sent", "error", err)
	}
	return reply{sent: true}, nil
}

// importsDefinitions describes an import. What it makes is noted as it is made.
func importsDefinitions(c *call) audit.Act {
	return audit.Act{Operation: audit.OpDefinitionsImport, VHost: c.vhost(), Kind: "definitions"}
}

// importDefinitions answers 400 if something is refused or fails, because a tool that checks only the code takes
// everything else for a success.
func importDefinitions(c *call) (reply, error) {
	select {
	case c.api.imports <- struct{}{}:
		defer func() { <-c.api.imports }()
	default:
		return reply{}, &failure.Error{
			Class: failure.ResourceExhausted, Kind: "definitions", RetryAfter: time.Second,
			Reason: fmt.Sprintf("this node imports %d documents already; try again later", maxImports),
		}
	}
	// The answer comes after the import, for which the time of other answers may be too short.
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(2 * documentTime))
	document, err := c.readWithin(imports.MaxBytes, documentTime)
	if err != nil {
		return reply{}, err
	}
	var shown []object
	request := imports.Request{Document: document, VHost: c.vhost(), DryRun: c.flag("dry_run")}
	n, err := c.api.Broker.Definitions.Import(c.Context(), request, func(done []imports.Imported, _ int) {
		for i := range done {
			if o := &done[i]; len(shown) < maxShownObjects && (isNotAsWanted(o) || o.Outcome == imports.Created && c.flag("created")) {
				shown = append(shown, ofImported(o))
			}
		}
	})
	if err != nil {
		return reply{}, err
	}
	return imported(&n, shown), nil
}

// outcomeNames are the outcomes as answers name them.
func outcomeNames() map[imports.Outcome]string {
	return map[imports.Outcome]string{
		imports.Created: "created", imports.Unchanged: "unchanged", imports.Different: "different",
		imports.Refused: "refused", imports.Skipped: "skipped", imports.Failed: "failed",
	}
}

// isNotAsWanted reports whether an object is not as the document has it.
func isNotAsWanted(o *imports.Imported) bool {
	return o.Outcome != imports.Created && o.Outcome != imports.Unchanged || len(o.Warnings) > 0
}

// ofImported shows the outcome of one object.
func ofImported(o *imports.Imported) object {
	out := object{"kind": o.Kind, "name": o.Name, "path": o.Path, "outcome": outcomeNames()[o.Outcome], "reason": o.Reason}
	if o.VHost != "" {
		out["vhost"] = o.VHost
	}
	if len(o.Warnings) > 0 {
		out["warnings"] = o.Warnings
	}
	return out
}

// imported answers with the counts of all outcomes, and the objects that are not as the document
// has them.
func imported(n *imports.Summary, shown []object) reply {
	body := object{"total": n.Total, "objects": orEmpty(shown)}
	for outcome, name := range outcomeNames() {
		body[name] = n.Counts[outcome]
	}
	not := n.Counts[imports.Refused] + n.Counts[imports.Failed]
	if not == 0 {
		return reply{body: body}
	}
	body["error"] = "bad_request"
	body["reason"] = fmt.Sprintf("%d of %d objects could not be made; the list of objects says why", not, n.Total)
	return reply{code: http.StatusBadRequest, body: body}
}

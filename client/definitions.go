package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// definitionPieceBytes is the size of the pieces of a document.
const definitionPieceBytes = 256 << 10

// ExportDefinitions returns everything in the cluster except messages, or in one vhost unless that
// is "", as one JSON document with RabbitMQ's names (VH-9).
func (c *Client) ExportDefinitions(ctx context.Context, vhost string) ([]byte, error) {
	var document []byte
	err := c.call(ctx, func(ctx context.Context, n *node) error {
		document = nil
		stream, err := n.defs.ExportDefinitions(ctx, &brokerv1.ExportDefinitionsRequest{Vhost: vhost})
		if err != nil {
			return err
		}
		return receive(stream, func(r *brokerv1.ExportDefinitionsResponse) error {
			document = append(document, r.GetPiece()...)
			return nil
		})
	})
	return document, err
}

// ImportOutcome is the result for one object of a document.
type ImportOutcome string

// The outcomes.
const (
	ImportCreated   ImportOutcome = "created"
	ImportUnchanged ImportOutcome = "unchanged"
	ImportDifferent ImportOutcome = "different" // it exists with other properties and stays as it is
	ImportRefused   ImportOutcome = "refused"
	ImportSkipped   ImportOutcome = "skipped"
	ImportFailed    ImportOutcome = "failed"
)

// ImportDefinitionsRequest has a document and how to import it.
type ImportDefinitionsRequest struct {
	Document []byte
	// VHost restricts the import to that vhost; a document of a single vhost is imported into it.
	// Empty: everything.
	VHost string
	// DryRun reports what would be done and changes nothing.
	DryRun bool
	// Seen, unless nil, receives objects as they are processed; total is the number of objects.
	Seen func(done []ImportedObject, total int)
}

// ImportDefinitions creates what a document describes and the cluster lacks, and returns the number
// of objects by outcome. What exists with other properties stays as it is. A malformed document
// changes nothing. An interrupted import is completed by a repeat. Only ctx bounds the call.
func (c *Client) ImportDefinitions(ctx context.Context, r ImportDefinitionsRequest) (ImportSummary, error) {
	begun := false
	for retry := (backoff{}); ; {
		var summary ImportSummary
		err := c.try(ctx, func(ctx context.Context, n *node) error {
			stream, err := n.defs.ImportDefinitions(ctx)
			if err != nil {
				return err
			}
			if err := sendDocument(stream, &r); err != nil {
				return err
			}
			return receive(stream, func(x *brokerv1.ImportDefinitionsResponse) error {
				begun = true
				summary = owned[ImportSummary](x.GetSummary())
				if len(x.GetObjects()) == 0 || r.Seen == nil {
					return nil
				}
				done := make([]ImportedObject, 0, len(x.GetObjects()))
				for _, o := range x.GetObjects() {
					done = append(done, owned[ImportedObject](o))
				}
				r.Seen(done, int(x.GetTotal()))
				return nil
			})
		})
		if err == nil {
			return summary, nil
		}
		if begun && passing(err) && ctx.Err() == nil && c.ctx.Err() == nil {
			return summary, fmt.Errorf("the import was interrupted; a repeat completes it: %w", fromGRPC(err))
		}
		if err := c.again(ctx, &retry, err); err != nil {
			return summary, err
		}
	}
}

// sendDocument sends options and document. If the server has ended the stream, reading it returns
// the reason.
func sendDocument(stream brokerv1.Definitions_ImportDefinitionsClient, r *ImportDefinitionsRequest) error {
	document, o := r.Document, &brokerv1.ImportOptions{Vhost: r.VHost, DryRun: r.DryRun}
	err := stream.Send(&brokerv1.ImportDefinitionsRequest{Kind: &brokerv1.ImportDefinitionsRequest_Options{Options: o}})
	for err == nil && len(document) > 0 {
		n := min(len(document), definitionPieceBytes)
		err = stream.Send(&brokerv1.ImportDefinitionsRequest{Kind: &brokerv1.ImportDefinitionsRequest_Piece{Piece: document[:n]}})
		document = document[n:]
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return stream.CloseSend()
}

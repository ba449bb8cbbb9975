package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// definitionPieceBytes is the size of the pieces that a document is sent in.
const definitionPieceBytes = 256 << 10

// ExportDefinitions returns all that the cluster has besides messages, or what one vhost
// has unless that is "", as one JSON document with the names that RabbitMQ uses (VH-9).
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

// ImportOutcome is what came of an object of a document.
type ImportOutcome string

// The outcomes.
const (
	ImportCreated   ImportOutcome = "created"
	ImportUnchanged ImportOutcome = "unchanged"
	ImportDifferent ImportOutcome = "different" // it exists with other properties, and is left
	ImportRefused   ImportOutcome = "refused"
	ImportSkipped   ImportOutcome = "skipped"
	ImportFailed    ImportOutcome = "failed"
)

// ImportDefinitionsRequest has a document and says what of it is made.
type ImportDefinitionsRequest struct {
	Document []byte
	// VHost: only what lies in it; a document of a single vhost goes there. All if empty.
	VHost string
	// DryRun tells what would be done and does nothing.
	DryRun bool
	// Seen, unless it is nil, gets objects as they are done; total is the number of all.
	Seen func(done []ImportedObject, total int)
}

// ImportDefinitions makes what a document describes and the cluster does not have, and
// returns how many objects came to what. What exists with other properties is left. Nothing is taken of a document
// whose form is wrong. An import that was cut off is completed by a repeat. ctx alone bounds
// the call.
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
			return summary, fmt.Errorf("the import was cut off, a repeat completes it: %w", fromGRPC(err))
		}
		if err := c.again(ctx, &retry, err); err != nil {
			return summary, err
		}
	}
}

// sendDocument sends options and document. A server that has ended the stream says why when
// it is read.
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

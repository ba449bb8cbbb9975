package grpcapi

import (
	"errors"
	"io"
	"strconv"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/imports"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// pieceBytes is the size of the pieces of an export.
const pieceBytes = 256 << 10

// definitionsServer serves Definitions over the broker; it keeps no state.
type definitionsServer struct {
	brokerv1.UnimplementedDefinitionsServer
	b *broker.Broker
}

// ExportDefinitions sends the document in pieces.
func (s *definitionsServer) ExportDefinitions(req *brokerv1.ExportDefinitionsRequest, stream grpc.ServerStreamingServer[brokerv1.ExportDefinitionsResponse]) error {
	document, err := s.b.Definitions.Export(req.GetVhost())
	if err != nil {
		return err
	}
	for len(document) > 0 {
		n := min(len(document), pieceBytes)
		if err := stream.Send(&brokerv1.ExportDefinitionsResponse{Piece: document[:n]}); err != nil {
			return err
		}
		document = document[n:]
	}
	return nil
}

// ImportDefinitions receives options and document and sends the outcome for each object.
func (s *definitionsServer) ImportDefinitions(stream grpc.BidiStreamingServer[brokerv1.ImportDefinitionsRequest, brokerv1.ImportDefinitionsResponse]) error {
	options, document, err := receiveDocument(stream)
	if err != nil {
		return err
	}
	var lost error // the caller is gone
	summary, err := s.b.Definitions.Import(stream.Context(), imports.Request{
		Document: document, VHost: options.GetVhost(), DryRun: options.GetDryRun(),
	}, func(done []imports.Imported, total int) {
		if lost == nil {
			lost = stream.Send(&brokerv1.ImportDefinitionsResponse{Objects: toImported(done), Total: uint32(total)})
		}
	})
	if err == nil {
		err = lost
	}
	if err != nil {
		return err
	}
	n := &summary.Counts
	return stream.Send(&brokerv1.ImportDefinitionsResponse{Total: uint32(summary.Total), Summary: &brokerv1.ImportSummary{
		Created: uint32(n[imports.Created]), Unchanged: uint32(n[imports.Unchanged]), Different: uint32(n[imports.Different]),
		Refused: uint32(n[imports.Refused]), Skipped: uint32(n[imports.Skipped]), Failed: uint32(n[imports.Failed]),
	}})
}

// receiveDocument gathers the pieces of a document, up to imports.MaxBytes. The options come first,
// in a request of their own.
func receiveDocument(stream grpc.BidiStreamingServer[brokerv1.ImportDefinitionsRequest, brokerv1.ImportDefinitionsResponse]) (*brokerv1.ImportOptions, []byte, error) {
	first, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	if first.GetOptions() == nil {
		return nil, nil, invalid("definitions", "options", "", "must come first, in a request of their own")
	}
	var document []byte
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return first.GetOptions(), document, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if document = append(document, r.GetPiece()...); len(document) > imports.MaxBytes {
			return nil, nil, invalid("definitions", "piece", "", "the document has more than "+strconv.Itoa(imports.MaxBytes)+" bytes; import it in parts")
		}
	}
}

// toImported converts the outcome of each object.
func toImported(done []imports.Imported) []*brokerv1.ImportedObject {
	outcomes := map[imports.Outcome]brokerv1.ImportOutcome{
		imports.Created:   brokerv1.ImportOutcome_IMPORT_OUTCOME_CREATED,
		imports.Unchanged: brokerv1.ImportOutcome_IMPORT_OUTCOME_UNCHANGED,
		imports.Different: brokerv1.ImportOutcome_IMPORT_OUTCOME_DIFFERENT,
		imports.Refused:   brokerv1.ImportOutcome_IMPORT_OUTCOME_REFUSED,
		imports.Skipped:   brokerv1.ImportOutcome_IMPORT_OUTCOME_SKIPPED,
		imports.Failed:    brokerv1.ImportOutcome_IMPORT_OUTCOME_FAILED,
	}
	out := make([]*brokerv1.ImportedObject, len(done))
	for i := range done {
		o := &done[i]
		out[i] = &brokerv1.ImportedObject{
			Kind: o.Kind, Vhost: o.VHost, Name: o.Name, Path: o.Path, Outcome: outcomes[o.Outcome], Reason: o.Reason, Warnings: o.Warnings,
		}
	}
	return out
}

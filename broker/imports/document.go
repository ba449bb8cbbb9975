package imports

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/definitions"
)

// MaxBytes limits the document of an import.
const MaxBytes = definitions.MaxBytes

// AtStart is a document that a node imports when it starts (VH-9).
type AtStart struct {
	Document []byte // nil: none
	// Always imports the document at every start, even if the cluster has imported the same one
	// before. Objects that were deleted meanwhile are created again.
	Always bool
}

// Validate returns the faults in the form of the document.
func (i *AtStart) Validate() error {
	if i.Document == nil {
		return nil
	}
	if _, err := definitions.Parse(i.Document, ""); err != nil {
		return fmt.Errorf("broker: Definitions: %w", err)
	}
	return nil
}

// hash identifies the document, so that a later start recognizes one that was already imported.
func (i *AtStart) hash() string {
	sum := sha256.Sum256(i.Document)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// faultyDocument refuses a document whose form has faults, and names the place of the first one.
func faultyDocument(err error) error {
	e := &failure.Error{Class: failure.PreconditionFailed, Kind: "definitions", Reason: "nothing is imported: " + err.Error(), Cause: err}
	var faults *definitions.Faults
	if errors.As(err, &faults) && len(faults.List) > 0 {
		e.Arg = faults.List[0].Path
	}
	return e
}

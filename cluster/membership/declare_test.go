package membership

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/catalog"
)

// What is tried again is a refusal because of the chosen nodes alone.
func TestMisplaced(t *testing.T) {
	refusal := func(code catalog.ErrorCode, kind, arg string) error {
		return fmt.Errorf("propose: %w", &catalog.Error{Code: code, Kind: kind, Arg: arg})
	}
	for want, errs := range map[bool][]error{
		true: {refusal(catalog.CodePreconditionFailed, "queue", "members")},
		false: {
			nil,
			errors.New("no leader"),
			refusal(catalog.CodePreconditionFailed, "queue", "leader"),
			refusal(catalog.CodePreconditionFailed, "queue", "max-queues"),
			refusal(catalog.CodeNotFound, "vhost", ""),
		},
	} {
		for _, err := range errs {
			if misplaced(err) != want {
				t.Errorf("%v: %v, want %v", err, !want, want)
			}
		}
	}
}

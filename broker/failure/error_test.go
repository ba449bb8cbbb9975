package failure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/traffic"
)

// C-4: the class of each error, and what its text names.
func TestTranslate(t *testing.T) {
	about := Error{VHost: "/", Kind: "queue", Name: "q"}
	rows := []struct {
		err   error
		class Class
		text  string
	}{
		{&catalog.Error{Code: catalog.CodeNotFound, Kind: "exchange", Name: "x", VHost: "v", Reason: "r"}, NotFound, `NOT_FOUND: exchange "x" in vhost "v": r`},
		{
			fmt.Errorf("wrapped: %w", &catalog.Error{Code: catalog.CodePreconditionFailed, Kind: "queue", Name: "x", VHost: "v", Arg: "a", Value: "1", Reason: "r"}),
			PreconditionFailed, `PRECONDITION_FAILED: queue "x" in vhost "v": a = 1: r`,
		},
		{&catalog.Error{Code: catalog.CodeAccessRefused, Kind: "exchange", Reason: "r"}, AccessRefused, `ACCESS_REFUSED: exchange "": r`},
		{&catalog.Error{Code: catalog.CodeResourceLocked, Kind: "queue", Name: "x", Reason: "r"}, ResourceLocked, `RESOURCE_LOCKED: queue "x": r`},
		{fmt.Errorf("%w: x", traffic.ErrNoSuchQueue), NotFound, `NOT_FOUND: queue "q" in vhost "/": does not exist; declare it first`},
		{traffic.ErrUnavailable, Unavailable, `UNAVAILABLE: queue "q" in vhost "/": no leader could be reached in time`},
		{
			fmt.Errorf("%w: %w", traffic.ErrNotLed, traffic.ErrUnavailable), Unavailable,
			`UNAVAILABLE: queue "q" in vhost "/": is declared, but got no leader in time`,
		},
		{fmt.Errorf("%w: %w", traffic.ErrNotLed, traffic.ErrClosed), Unavailable, `UNAVAILABLE: queue "q" in vhost "/": this node is stopping`},
		{traffic.ErrUnknownOutcome, Unavailable, `UNAVAILABLE: queue "q" in vhost "/": the leader was lost and the outcome is unknown`},
		{fmt.Errorf("%w: node \"a\"", disk.ErrNoSpace), ResourceExhausted, `RESOURCE_EXHAUSTED: queue "q" in vhost "/": cluster: short of disk space: node "a"`},
		{traffic.ErrClosed, Unavailable, `UNAVAILABLE: queue "q" in vhost "/": this node is stopping`},
		{traffic.ErrExclusive, AccessRefused, `ACCESS_REFUSED: queue "q" in vhost "/": has consumers or an exclusive one`},
		{traffic.ErrConsumerGone, PreconditionFailed, `PRECONDITION_FAILED: queue "q" in vhost "/": the consumer, or its hold`},
		{
			traffic.ErrUndelivered, Unavailable,
			`UNAVAILABLE: queue "q" in vhost "/": no leader could be reached in time for the last deliveries of the cancelled consumer`,
		},
		{errors.New("odd"), Internal, `INTERNAL_ERROR: queue "q" in vhost "/": odd`},
	}
	for _, row := range rows {
		err := Translate(row.err, about)
		var e *Error
		if !errors.As(err, &e) || e.Class != row.class || !strings.HasPrefix(err.Error(), row.text) || !errors.Is(err, row.err) && row.class == Internal {
			t.Errorf("%v became %v, want %s", row.err, err, row.text)
		}
	}
	if Translate(nil, about) != nil || !errors.Is(Translate(context.Canceled, about), context.Canceled) {
		t.Error("nil and the caller's context are not kept")
	}
}

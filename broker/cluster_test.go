package broker

import (
	"testing"

	"github.com/quorate/quorate/internal/testnode"
)

// closed returns a broker of a node that was stopped.
func closed(t *testing.T) *Broker {
	t.Helper()
	part := testnode.Start(t)
	b := New(part, Config{})
	t.Cleanup(b.Close)
	if err := part.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

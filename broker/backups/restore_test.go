package backups

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/cluster/traffic"
)

// A message that a limit refuses is counted, and the restore continues; a queue that is being deleted, perhaps
// because it has expired while it was still empty, ends it.
func TestRefusedAtRestore(t *testing.T) {
	t.Parallel()
	deleting := fmt.Errorf("queue: %w: %w", traffic.ErrRefused, traffic.ErrDrainDeleting)
	for _, x := range []struct {
		answer  error
		refused uint64
		want    error
	}{
		{traffic.ErrRefused, 1, nil},
		{deleting, 0, traffic.ErrDrainDeleting},
	} {
		r := &restoring{}
		r.waiting.Add(1)
		r.answer(x.answer)
		if got := r.failed(); r.progress().Refused != x.refused || !errors.Is(got, x.want) {
			t.Errorf("%v: refused %d, failed %v", x.answer, r.progress().Refused, got)
		}
	}
}

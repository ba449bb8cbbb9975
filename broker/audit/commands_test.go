package audit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// answers is a member of the catalog's group that answers every command in the same way.
type answers struct {
	reply catalog.Reply
	err   error
}

func (a answers) Propose(context.Context, catalog.Command) (catalog.Reply, error) {
	return a.reply, a.err
}

// AU-1: the deletion of a queue that is decided leaves one record of the act that decided it, whoever carries it out: also
// when the queue's leader was first, so that the catalog has nothing to delete any more. Without the decision, a queue that
// is not there leaves none.
func TestDecidedDeletionIsRecorded(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	for i, cmd := range []catalog.Command{
		&catalog.RegisterNode{ID: "a", Epoch: 1},
		&catalog.DeclareQueue{VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a"},
	} {
		if r := c.Apply(uint64(i)+1, 0, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	there := c.View()
	rec, _ := there.Queue("/", "q")
	cmd := &catalog.DeleteQueue{VHost: "/", Name: "q", UID: rec.UID}
	if r := c.Apply(there.Index()+1, 0, cmd); r.Err != nil || !r.Deleted {
		t.Fatalf("%+v", r)
	}
	gone := c.View()
	for name, row := range map[string]struct {
		now     *catalog.View
		answers answers
		decided bool
		records int
	}{
		"this act is first":                  {there, answers{reply: catalog.Reply{Deleted: true}}, true, 1},
		"the leader is first, and seen":      {gone, answers{}, true, 1},
		"the leader is first, and not seen":  {there, answers{}, true, 1},
		"the command was carried out before": {there, answers{reply: catalog.Reply{Repeated: true}}, true, 1},
		"the catalog does not answer":        {there, answers{err: errors.New("no leader")}, true, 0},
		"it was not decided":                 {gone, answers{}, false, 0},
	} {
		x := NewCommands(row.answers, func() *catalog.View { return row.now })
		lines := auditOf(t, user("anna", false), Act{Operation: OpQueueDelete, Kind: "queue", Name: "q"}, 1, func(ctx context.Context) error {
			var err error
			if row.decided {
				_, err = x.CommitDecided(ctx, there, cmd)
			} else {
				_, err = x.Commit(ctx, cmd)
			}
			return err
		})
		text := strings.Join(lines, "\n")
		if n := strings.Count(text, "outcome=done"); n != row.records || strings.Count(text, "type: ") != row.records {
			t.Errorf("%s: %d records, want %d: %s", name, n, row.records, text)
		}
	}
}

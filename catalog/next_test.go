package catalog

import (
	"testing"

	"github.com/quorate/quorate/id"
)

// RE-3, PUB-7: nothing follows from a configuration that is not committed; what follows from one that is.
func TestMemberChangeNext(t *testing.T) {
	abc := []id.NodeID{"a", "b", "c"}
	ac := []id.NodeID{"a", "c"}
	for _, row := range []struct {
		name   string
		c      MemberChange
		voters []id.NodeID
		want   ChangeAct
	}{
		{"another node joins first", MemberChange{Join: "d", Leave: "b"}, abc, LetIn},
		{"then the old one leaves", MemberChange{Leave: "b"}, append(abc, "d"), TakeOut},
		{"one leaves", MemberChange{Leave: "b"}, abc, TakeOut},
		{"one has left", MemberChange{Leave: "b"}, ac, TakeOut},
		{"one that is rebuilt leaves first", MemberChange{Join: "b", Leave: "b"}, abc, TakeOut},
		{"and joins then", MemberChange{Join: "b"}, ac, LetIn},
		{"a cancelled join that does not vote", MemberChange{Join: "d", Leave: "b", Cancelled: true}, abc, Revert},
		{"a cancelled join that votes", MemberChange{Join: "d", Leave: "b", Cancelled: true}, append(abc, "d"), LetIn},
		{"a cancelled leave that votes", MemberChange{Leave: "b", Cancelled: true}, abc, Revert},
		{"a cancelled leave that is out", MemberChange{Leave: "b", Cancelled: true}, ac, TakeOut},
		{"a cancelled rebuild that votes", MemberChange{Join: "b", Leave: "b", Cancelled: true}, abc, Revert},
		{"a cancelled rebuild that is out", MemberChange{Join: "b", Leave: "b", Cancelled: true}, ac, TakeOut},
	} {
		if got := row.c.Next(true, row.voters); got != row.want {
			t.Errorf("%s: act %d, want %d", row.name, got, row.want)
		}
		if got := row.c.Next(false, row.voters); got != AwaitCommit {
			t.Errorf("%s: act %d by a configuration that is not committed", row.name, got)
		}
	}
}

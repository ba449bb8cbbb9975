package imports_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/imports"
	"github.com/quorate/quorate/internal/testcluster"
)

// VH-9, VH-17: a queue above a limit is reported as refused, and not as different, whether the plan finds that or
// others have made too many queues since.
func TestImportAboveLimit(t *testing.T) {
	b := testcluster.Start(t, 1).Broker(0)
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	if _, err := b.Administration.PutUser(ctx, administration.PutUser{Name: "u", Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	limits := administration.NoUserLimits()
	limits.MaxQueues = 1
	testcluster.Poll(t, "the version with declarers is finalised", func() error {
		return b.Administration.SetUserLimits(ctx, "u", limits)
	})
	run := func(before, want string, report func(), queues ...string) {
		t.Helper()
		for i, name := range queues {
			queues[i] = fmt.Sprintf(`{"name":%q,"vhost":"/","type":"quorum","durable":true,"declared_by":"u"}`, name)
		}
		s, err := b.Definitions.Import(ctx, imports.Request{Document: fmt.Appendf(nil, `{%s"queues":[%s]}`, before, strings.Join(queues, ","))},
			func(done []imports.Imported, _ int) {
				for _, o := range done {
					if o.Outcome == imports.Refused && !strings.Contains(o.Reason, `user "u": max-queues = 1`) {
						t.Errorf("%s is refused: %s", o.Name, o.Reason)
					}
				}
				if report != nil {
					report()
				}
				report = nil
			})
		if got := counts(s); err != nil || got != want {
			t.Errorf("%s, want %s; %v", got, want, err)
		}
	}
	// There are so many objects that the first ones are reported before the queue is made.
	many := fmt.Sprintf(`"vhosts":[%s],`, strings.TrimSuffix(strings.Repeat(`{"name":"/"},`, 256), ","))
	run(many, "257: 0 created, 256 unchanged, 0 different, 1 refused, 0 skipped, 0 failed", func() {
		run("", "3: 1 created, 0 unchanged, 0 different, 2 refused, 0 skipped, 0 failed", nil, "a", "b", "c")
	}, "late")
}

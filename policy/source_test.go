package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// G-20: each setting in force names the one that it comes from.
func TestSources(t *testing.T) {
	table := func(pairs ...any) (out message.Table) {
		for i := 0; i < len(pairs); i += 2 {
			v := message.String(fmt.Sprint(pairs[i+1]))
			if n, ok := pairs[i+1].(int); ok {
				v = message.Int64(int64(n))
			}
			out = append(out, message.Field{Name: fmt.Sprint(pairs[i]), Value: v})
		}
		return out
	}
	user := &catalog.Policy{Name: "u", Definition: table(
		"dead-letter-exchange", "ux", "max-length", 10, "overflow", "drop-head", "message-ttl", 5, "delivery-limit", -1)}
	operator := &catalog.Policy{Name: "o", Operator: true, Definition: table("max-length", 7, "overflow", "reject-publish", "message-ttl", 9)}
	got := func(declared message.Table, user, operator *catalog.Policy) string {
		var lines []string
		for _, s := range policy.Sources(declared, user, operator) {
			lines = append(lines, fmt.Sprintf("%s=%s %s", s.Arg, s.Value, s.From))
		}
		return strings.Join(lines, "; ")
	}
	for _, c := range []struct {
		declared       message.Table
		user, operator *catalog.Policy
		want           string
	}{
		{table("x-max-length", 3), nil, nil, "x-max-length=3 argument"},
		{
			table("x-dead-letter-exchange", "ax", "x-max-length", 8, "x-note", "n"), user, operator,
			`x-dead-letter-exchange="ax" argument; x-max-length=7 operator policy "o"; x-note="n" argument; ` +
				`x-overflow="reject-publish" operator policy "o"; x-message-ttl=5 policy "u"; x-delivery-limit=-1 policy "u"`,
		},
		{table("x-max-length", 2), user, nil, `x-max-length=2 argument; x-overflow="drop-head" policy "u"; ` +
			`x-message-ttl=5 policy "u"; x-delivery-limit=-1 policy "u"; x-dead-letter-exchange="ux" policy "u"`},
	} {
		if s := got(c.declared, c.user, c.operator); s != c.want {
			t.Errorf("got  %s\nwant %s", s, c.want)
		}
	}
}

package policy_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

func table(pairs ...any) message.Table {
	var t message.Table
	for i := 0; i < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case int:
			t.Set(name, message.Int64(int64(v)))
		case string:
			t.Set(name, message.String(v))
		case bool:
			t.Set(name, message.Bool(v))
		case message.Value:
			t.Set(name, v)
		}
	}
	return t
}

// faults returns the arguments that an error blames.
func faults(t *testing.T, err error) (names []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		var ae *argument.Error
		if !errors.As(err, &ae) {
			t.Fatalf("%v is no *ArgumentError", err)
		}
		if ae.Reason == "" || ae.Value == "" || !strings.Contains(err.Error(), ae.Arg) {
			t.Errorf("imprecise: %v", err)
		}
		return []string{ae.Arg}
	}
	for _, e := range joined.Unwrap() {
		names = append(names, faults(t, e)...)
	}
	return names
}

//
func TestResolveDeclaration(t *testing.T) {
	named := func(kind string, d policy.Declaration) policy.Declaration {
		d.Arguments = table("x-queue-type", kind)
		return d
	}
	good := policy.Declaration{Name: "q", Durable: true}
	for name, c := range map[string]struct {
		d      policy.Declaration
		absent catalog.QueueType
		kind   catalog.QueueType
		want   []string
	}{
		"default":                   {d: good, kind: catalog.QueueQuorum},
		"vhost default classic":     {d: good, absent: catalog.QueueClassic, kind: catalog.QueueClassic},
		"quorum over vhost default": {d: named("quorum", good), absent: catalog.QueueClassic, kind: catalog.QueueQuorum},
		"classic":                   {d: named("classic", good), kind: catalog.QueueClassic},
		"quorum exclusive":          {d: named("quorum", policy.Declaration{Name: "q", Durable: true, Exclusive: true}), want: []string{"exclusive"}},
		"quorum auto_delete":        {d: named("quorum", policy.Declaration{Name: "q", Durable: true, AutoDelete: true}), want: []string{"auto_delete"}},
		"quorum not durable":        {d: named("quorum", policy.Declaration{Name: "q"}), want: []string{"durable"}},
		"quorum without name":       {d: named("quorum", policy.Declaration{Durable: true}), want: []string{"name"}},
		"quorum all wrong": {
			d: named("quorum", policy.Declaration{Exclusive: true, AutoDelete: true}), want: []string{"durable", "exclusive", "auto_delete", "name"},
		},
		"exclusive is classic":   {d: policy.Declaration{Name: "q", Durable: true, Exclusive: true}, kind: catalog.QueueClassic},
		"auto_delete is classic": {d: policy.Declaration{Name: "q", Durable: true, AutoDelete: true}, kind: catalog.QueueClassic},
		"not durable is classic": {d: policy.Declaration{Name: "q"}, kind: catalog.QueueClassic},
		"nameless is classic":    {d: policy.Declaration{Durable: true}, kind: catalog.QueueClassic},
		"classic may be all": {
			d: named("classic", policy.Declaration{Exclusive: true, AutoDelete: true}), kind: catalog.QueueClassic,
		},
		"classic without name":  {d: named("classic", policy.Declaration{Durable: true}), kind: catalog.QueueClassic},
		"bad type":              {d: named("stream", good), want: []string{"x-queue-type"}},
		"bad type, not durable": {d: named("stream", policy.Declaration{Name: "q"}), want: []string{"x-queue-type"}},
		"bad argument and property": {
			d:    policy.Declaration{Name: "q", Exclusive: true, Durable: true, Arguments: table("x-max-length", -1)},
			want: []string{"x-max-length"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.ResolveDeclaration(c.d, c.absent)
			if got := faults(t, err); !slices.Equal(got, c.want) {
				t.Fatalf("faults %q, want %q: %v", got, c.want, err)
			}
			if err == nil && s.Classic != (c.kind == catalog.QueueClassic) {
				t.Errorf("classic is %t, want type %q", s.Classic, c.kind)
			}
		})
	}
}

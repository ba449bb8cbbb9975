package access

import (
	"slices"
	"testing"
)

func TestWildcard(t *testing.T) {
	for _, row := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "anything", true},
		{"a*", "abc", true},
		{"a*", "ba", false},
		{"*a", "aba", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "acb", false},
		{"**", "x", true},
		{"%2F", "/", true},
		{"*%2Fx", "a/x", true},
		{"%2A", "*", true},
		{"%2A", "x", false},
		{"a.c", "abc", false},
		{"(a+)+", "aaaaaaaa", false},
		{"%zz", "%zz", false},
		{"*%", "x", false},
	} {
		if got := newWildcard(row.pattern).matches(row.name); got != row.want {
			t.Errorf("%q matches %q: %v", row.pattern, row.name, got)
		}
	}
}

// Scopes give rights as RabbitMQ's do (ID-4).
func TestScopes(t *testing.T) {
	all, tags := ParseScopes([]string{
		"read:%2F/orders*", "write:%2F/x/a.*", "configure:test*/*", "tag:monitoring", "tag:administrator", "tag:monitoring",
		"read:only", "read:a/b/c/d", "admin:*/*", "read", "",
	})
	r, _ := all.(rights)
	if !slices.Equal(tags, []string{"administrator", "monitoring"}) || len(r) != 3 {
		t.Errorf("%v %v", tags, r)
	}
	may := func(g Grant, right Right, name string) bool {
		if g[right] == nil {
			return false
		}
		ok, err := g[right].Match(name)
		return ok && err == nil
	}
	root, entered := r.In("/")
	if !entered || !may(root, Read, "orders.eu") || may(root, Read, "x") || !may(root, Write, "x") || may(root, Configure, "x") {
		t.Errorf("%v", root)
	}
	test, entered := r.In("test1")
	if !entered || !may(test, Configure, "") || may(test, Read, "orders") {
		t.Errorf("%v", test)
	}
	if _, entered := r.In("prod"); entered {
		t.Error("a vhost of no scope is entered")
	}
	keys, bounded := r.Topic("/", "x")
	if !bounded || !may(keys, Write, "a.b") || may(keys, Write, "b.a") || may(keys, Read, "a.b") {
		t.Errorf("%v", keys)
	}
	if keys, bounded := r.Topic("/", "orders"); !bounded || may(keys, Read, "a") {
		t.Errorf("a scope without keys gives keys: %v", keys)
	}
}

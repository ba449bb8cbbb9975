package oauth2

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/access"
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
	r, tags := parseScopes([]string{
		"read:%2F/orders*", "write:%2F/x/a.*", "configure:test*/*", "tag:monitoring", "tag:administrator", "tag:monitoring",
		"read:only", "read:a/b/c/d", "admin:*/*", "read", "",
	})
	if !slices.Equal(tags, []string{"administrator", "monitoring"}) || len(r) != 3 {
		t.Errorf("%v %v", tags, r)
	}
	may := func(g access.Grant, right access.Right, name string) bool {
		if g[right] == nil {
			return false
		}
		ok, err := g[right].Match(name)
		return ok && err == nil
	}
	root, entered := r.In("/")
	if !entered || !may(root, access.Read, "orders.eu") || may(root, access.Read, "x") || !may(root, access.Write, "x") || may(root, access.Configure, "x") {
		t.Errorf("%v", root)
	}
	test, entered := r.In("test1")
	if !entered || !may(test, access.Configure, "") || may(test, access.Read, "orders") {
		t.Errorf("%v", test)
	}
	if _, entered := r.In("prod"); entered {
		t.Error("a vhost of no scope is entered")
	}
	keys, bounded := r.Topic("/", "x")
	if !bounded || !may(keys, access.Write, "a.b") || may(keys, access.Write, "b.a") || may(keys, access.Read, "a.b") {
		t.Errorf("%v", keys)
	}
	if keys, bounded := r.Topic("/", "orders"); !bounded || may(keys, access.Read, "a") {
		t.Errorf("a scope without keys gives keys: %v", keys)
	}
}

// Scopes are found where issuers put them.
func TestScopeClaims(t *testing.T) {
	c := Config{
		ResourceServer: "rabbit", AdditionalScopes: []string{"roles", "realm.access.roles", "authorization.permissions.scopes", "resource"},
		ScopeAliases: map[string][]string{"reader": {"rabbit.read:*/*", "other"}},
	}
	c.setDefaults()
	got, err := c.scopesOf(map[string]any{
		"scope": []any{"rabbit.write:*/*", 7, "openid"},
		"roles": "reader rabbit.write:*/*",
		"realm": map[string]any{"access": map[string]any{"roles": []any{"rabbit.tag:management"}}},
		"authorization": map[string]any{"permissions": []any{
			map[string]any{"scopes": []any{"rabbit.configure:*/a"}}, "x", map[string]any{"scopes": "rabbit.configure:*/b"},
		}},
		"resource": map[string]any{"rabbit": []any{"read:x/y"}, "other": []any{"read:x/z"}},
	})
	want := []string{"write:*/*", "read:*/*", "tag:management", "configure:*/a", "configure:*/b", "read:x/y"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v\nwant %q", got, err, want)
	}
}

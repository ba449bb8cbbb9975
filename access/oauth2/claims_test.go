package oauth2

import (
	"slices"
	"testing"
)

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

package oauth2

import (
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quorate/quorate/access"
)

// MaxScopes bounds the scopes of a token, including those that aliases stand for.
const MaxScopes = 1000

// identity makes an Identity of a verified token.
func (c *Config) identity(claims jwt.MapClaims) (*access.Identity, error) {
	name, err := c.userOf(claims)
	if err != nil {
		return nil, err
	}
	scopes, err := c.scopesOf(claims)
	if err != nil {
		return nil, err
	}
	ends, err := claims.GetExpirationTime()
	if err != nil || ends == nil {
		return nil, refused("the token has no expiry (exp); have the issuer set one")
	}
	r, tags := access.ParseScopes(scopes)
	return &access.Identity{Name: name, Tags: tags, Rights: r, Expires: ends.Add(c.Leeway)}, nil
}

// userOf takes the user's name from the first of the configured claims that holds a non-empty
// string. A name that CheckName refuses ends the search: falling through to the next claim could
// log in as somebody else.
func (c *Config) userOf(claims jwt.MapClaims) (string, error) {
	for _, claim := range c.UserClaims {
		name, is := claims[claim].(string)
		if !is || name == "" {
			continue
		}
		if err := access.CheckName(name); err != nil {
			return "", refused(fmt.Sprintf("the claim %q of the token cannot be a user name: %v", claim, err))
		}
		return name, nil
	}
	return "", refused(fmt.Sprintf("the token has none of the claims %q that name its user", c.UserClaims))
}

// scopesOf returns the scopes that are meant for this cluster, without their prefix.
func (c *Config) scopesOf(claims jwt.MapClaims) (own []string, err error) {
	all := c.scopes(nil, claims["scope"])
	for _, path := range c.AdditionalScopes {
		all = c.at(all, map[string]any(claims), strings.Split(path, "."))
	}
	seen := make(map[string]bool, len(all))
	add := func(scope string) {
		if rest, is := strings.CutPrefix(scope, c.ScopePrefix); is && !seen[rest] {
			seen[rest] = true
			own = append(own, rest)
		}
	}
	n := 0
	for _, scope := range all {
		stands := c.ScopeAliases[scope]
		if n += 1 + len(stands); n > MaxScopes {
			return nil, refused(fmt.Sprintf("the token has more than %d scopes; have the issuer leave out those of other services", MaxScopes))
		}
		add(scope)
		for _, s := range stands {
			add(s)
		}
	}
	return own, nil
}

// at appends the scopes at a path. The path leads through objects, and through lists of objects. It
// stops reading once there are more scopes than allowed.
func (c *Config) at(to []string, value any, path []string) []string {
	if len(to) > MaxScopes {
		return to
	}
	if len(path) == 0 {
		return c.scopes(to, value)
	}
	switch v := value.(type) {
	case map[string]any:
		if next, has := v[path[0]]; has {
			return c.at(to, next, path[1:])
		}
	case []any:
		for _, x := range v {
			if _, is := x.(map[string]any); is {
				to = c.at(to, x, path)
			}
		}
	}
	return to
}

// scopes appends the scopes of a claim: a string with spaces between them, a list of strings, or an
// object that holds scopes without a prefix under this cluster's name.
func (c *Config) scopes(to []string, value any) []string {
	switch v := value.(type) {
	case string:
		return append(to, strings.Fields(v)...)
	case []any:
		for _, x := range v {
			if s, is := x.(string); is {
				to = append(to, s)
			}
		}
	case map[string]any:
		if _, nested := v[c.ResourceServer].(map[string]any); nested {
			return to
		}
		for _, s := range c.scopes(nil, v[c.ResourceServer]) {
			to = append(to, c.ResourceServer+"."+s)
		}
	}
	return to
}

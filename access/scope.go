package access

import (
	"slices"
	"strings"
)

// tagScope is the prefix of a scope that is a tag.
const tagScope = "tag:"

// rule is one scope that grants a right.
type rule struct {
	right       Right
	vhost, name wildcard
	keys        wildcard // nil: the scope has no key, so it grants nothing on keys of topic exchanges
}

// rights are the rights that scopes grant.
type rights []rule

// IsScope reports whether a text without a prefix is a scope that grants something.
func IsScope(text string) bool {
	tag, is := strings.CutPrefix(text, tagScope)
	_, ok := parseRule(text)
	return ok || is && tag != ""
}

// In implements Rights.
func (r rights) In(vhost string) (Grant, bool) {
	names := [3]anyOf{}
	entered := false
	for i := range r {
		if r[i].vhost.matches(vhost) {
			entered = true
			names[r[i].right] = append(names[r[i].right], r[i].name)
		}
	}
	return grantOf(&names), entered
}

// Topic implements Rights. At a topic exchange only scopes with keys count.
func (r rights) Topic(vhost, exchange string) (Grant, bool) {
	keys := [3]anyOf{}
	for i := range r {
		if r[i].keys != nil && r[i].vhost.matches(vhost) && r[i].name.matches(exchange) {
			keys[r[i].right] = append(keys[r[i].right], r[i].keys)
		}
	}
	return grantOf(&keys), true
}

// grantOf leaves a right nil where no scope names anything for it. Assigning the nil slice would
// make a non-nil interface.
func grantOf(of *[3]anyOf) (g Grant) {
	for i, a := range of {
		if a != nil {
			g[i] = a
		}
	}
	return g
}

// ParseScopes derives rights and tags from scopes without a prefix; it leaves out what is neither
// (ID-4).
func ParseScopes(scopes []string) (Rights, []string) {
	var r rights
	var tags []string
	for _, s := range scopes {
		if tag, is := strings.CutPrefix(s, tagScope); is {
			tags = append(tags, tag)
			continue
		}
		if x, ok := parseRule(s); ok {
			r = append(r, x)
		}
	}
	slices.Sort(tags)
	return r, slices.Compact(tags)
}

// parseRule reads RIGHT:VHOST/NAME or RIGHT:VHOST/NAME/KEY.
func parseRule(scope string) (x rule, ok bool) {
	word, rest, _ := strings.Cut(scope, ":")
	right := slices.IndexFunc([]Right{Configure, Write, Read}, func(r Right) bool { return r.String() == word })
	parts := strings.Split(rest, "/")
	if right < 0 || len(parts) < 2 || len(parts) > 3 {
		return x, false
	}
	x = rule{right: Right(right), vhost: newWildcard(parts[0]), name: newWildcard(parts[1])}
	if len(parts) == 3 {
		x.keys = newWildcard(parts[2])
	}
	return x, true
}

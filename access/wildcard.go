package access

import (
	"net/url"
	"strings"
)

// wildcard is a pattern of a scope. `*` stands for any characters; everything else,
// percent-decoded, stands for itself. A pattern must match the whole name. nil matches nothing.
type wildcard []string // the texts between the stars

// newWildcard reads a pattern. A pattern that cannot be decoded matches nothing, as in RabbitMQ.
func newWildcard(text string) wildcard {
	parts := strings.Split(text, "*")
	for i, p := range parts {
		decoded, err := url.QueryUnescape(p)
		if err != nil {
			return nil
		}
		parts[i] = decoded
	}
	return parts
}

// matches takes time proportional to the name, whatever the number of stars.
func (w wildcard) matches(name string) bool {
	switch len(w) {
	case 0:
		return false
	case 1:
		return name == w[0]
	}
	first, last := w[0], w[len(w)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, p := range w[1 : len(w)-1] {
		i := strings.Index(name, p)
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return true
}

// anyOf matches what any of its patterns matches.
type anyOf []wildcard

// String implements Matcher.
func (a anyOf) String() string {
	var texts []string
	for _, w := range a {
		texts = append(texts, strings.Join(w, "*"))
	}
	return strings.Join(texts, " ")
}

// Match implements Matcher.
func (a anyOf) Match(name string) (bool, error) {
	for _, w := range a {
		if w.matches(name) {
			return true, nil
		}
	}
	return false, nil
}

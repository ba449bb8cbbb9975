package pattern_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/pattern"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "q", true},
		{"ord", "my-orders", true},
		{"^ord", "my-orders", false},
		{`^(?!amq\.).*`, "amq.direct", false},
		{`^(?!amq\.).*`, "orders", true},
		{`.*(?<!\.dlq)$`, "orders.dlq", false},
		{`.*(?<!\.dlq)$`, "orders", true},
		{"(?i)ORDERS", "orders", true},
		{`(a|b)\1`, "aa", true},
		{`^.$`, "é", true},
	} {
		p, err := pattern.Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Match(c.name); got != c.want || err != nil {
			t.Errorf("%q with %q: %v, %v; want %v", c.pattern, c.name, got, err, c.want)
		}
	}
}

func TestSyntax(t *testing.T) {
	for _, text := range []string{"(", "[", "*", `\`, "(?<=", "a{2,1}"} {
		_, err := pattern.Compile(text)
		var syntax *pattern.SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: error %v; want a SyntaxError that names it", text, err)
		}
	}
}

// A pattern that backtracks for ever ends, and does not match (C-8).
func TestBacktracking(t *testing.T) {
	p, err := pattern.Compile(`^(a+)+$`)
	if err != nil {
		t.Fatal(err)
	}
	matched, err := p.Match(strings.Repeat("a", 200) + "b")
	var timeout *pattern.TimeoutError
	if matched || !errors.As(err, &timeout) {
		t.Errorf("%v, %v; want a TimeoutError", matched, err)
	}
}

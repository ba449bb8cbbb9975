// Package pattern matches names with Perl-style regular expressions, as permissions and
// policies use them: with look-around, and therefore without a bound on the steps that a
// match takes. A match ends after Limit instead (C-8).
package pattern

import (
	"fmt"
	"time"

	"github.com/dlclark/regexp2"
)

// Limit is the longest time that one match may take (C-8).
const Limit = 10 * time.Millisecond

// Pattern is a compiled pattern. It may be used concurrently.
type Pattern struct{ re *regexp2.Regexp }

// SyntaxError says why a text is no pattern.
type SyntaxError struct {
	Pattern string
	Cause   error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("pattern %q is no regular expression: %v", e.Pattern, e.Cause)
}

func (e *SyntaxError) Unwrap() error { return e.Cause }

// TimeoutError says that a match took longer than Limit.
type TimeoutError struct{ Pattern, Name string }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("pattern %q takes longer than %v with %q and counts as no match; make it simpler", e.Pattern, Limit, e.Name)
}

// Compile reads a pattern; its error is a *SyntaxError.
func Compile(text string) (*Pattern, error) {
	re, err := regexp2.Compile(text, regexp2.None)
	if err != nil {
		return nil, &SyntaxError{text, err}
	}
	re.MatchTimeout = Limit
	return &Pattern{re}, nil
}

// Match tells whether the pattern is found anywhere in the name. Its error is a
// *TimeoutError; the name does not match then.
func (p *Pattern) Match(name string) (bool, error) {
	found, err := p.re.MatchString(name)
	if err != nil {
		return false, &TimeoutError{p.re.String(), name}
	}
	return found, nil
}

// String returns the text.
func (p *Pattern) String() string { return p.re.String() }

// Escape returns the pattern that matches a text as it is.
func Escape(text string) string { return regexp2.Escape(text) }

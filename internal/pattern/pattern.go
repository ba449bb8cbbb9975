// Package pattern matches names with Perl-style regular expressions, as permissions and policies
// use them. They have look-around, so the number of steps of a match has no bound. Limit bounds its
// time instead (C-8).
package pattern

import (
	"fmt"
	"sync"
	"time"

	"github.com/dlclark/regexp2"
)

// Limit is the longest time that one match may take (C-8).
const Limit = 10 * time.Millisecond

const (
	// clockPeriod is the resolution at which the library measures Limit: a goroutine sets the
	// library's clock at this period.
	clockPeriod = 5 * time.Millisecond
	// tries is how often a match must exceed Limit before it counts as too slow. On a busy machine the
	// library's clock may be late and then leap past the limit during the simplest match, or the match
	// itself may have to wait.
	tries = 3
)

// setClock must have run before the first match: the library's clock is one for all patterns.
var setClock = sync.OnceFunc(func() { regexp2.SetTimeoutCheckPeriod(clockPeriod) }) //nolint:gochecknoglobals // as is what it sets

// Pattern is a compiled pattern. It may be used concurrently.
type Pattern struct{ re *regexp2.Regexp }

// SyntaxError means that a text is not a valid pattern.
type SyntaxError struct {
	Pattern string
	Cause   error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("pattern %q is not a regular expression: %v", e.Pattern, e.Cause)
}

func (e *SyntaxError) Unwrap() error { return e.Cause }

// TimeoutError means that a match took longer than Limit at each try.
type TimeoutError struct{ Pattern, Name string }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("pattern %q takes longer than %v with %q and counts as no match; make it simpler", e.Pattern, Limit, e.Name)
}

// Compile compiles a pattern; its error is a *SyntaxError.
func Compile(text string) (*Pattern, error) {
	re, err := regexp2.Compile(text, regexp2.None)
	if err != nil {
		return nil, &SyntaxError{text, err}
	}
	setClock()
	re.MatchTimeout = Limit
	return &Pattern{re}, nil
}

// Match reports whether the pattern occurs anywhere in the name. Its error is a *TimeoutError; the
// name does not match then.
func (p *Pattern) Match(name string) (bool, error) {
	found, inTime := persist(func() (bool, error) { return p.re.MatchString(name) })
	if !inTime {
		return false, &TimeoutError{p.re.String(), name}
	}
	return found, nil
}

// persist calls match until it ends in time, a few times at most.
func persist(match func() (found bool, timeout error)) (found, inTime bool) {
	for range tries {
		if found, timeout := match(); timeout == nil {
			return found, true
		}
	}
	return false, false
}

// String returns the text that was compiled.
func (p *Pattern) String() string { return p.re.String() }

// Escape returns the pattern that matches exactly this text.
func Escape(text string) string { return regexp2.Escape(text) }

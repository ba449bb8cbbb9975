package clients

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// loginsOf writes counts in a fixed order.
func loginsOf(all []LoginAttempts) string {
	lines := make([]string, len(all))
	for i, a := range all {
		lines[i] = fmt.Sprintf("%s %s %q %d %d", a.Protocol, a.Address, a.User, a.Accepted, a.Refused)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Attempts are counted by protocol, and by source, which has no port.
func TestLogins(t *testing.T) {
	var l Logins
	l.Count("amqp", "192.0.2.1:1000", "a", true)
	l.Count("amqp", "192.0.2.1:1001", "a", false)
	l.Count("amqp", "192.0.2.1:1002", "b", false)
	l.Count("http", "[::ffff:192.0.2.1]:7", "a", true)
	l.Count("http", "[2001:db8::1]:7", strings.Repeat("ü", 200), false)
	l.Count("http", "pipe", "", false)
	protocols, sources := l.Counts()
	if got, want := loginsOf(protocols), "amqp  \"\" 1 2\nhttp  \"\" 1 2"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	want := `amqp 192.0.2.1 "a" 1 1
amqp 192.0.2.1 "b" 0 1
http 192.0.2.1 "a" 1 0
http 2001:db8::1 "` + strings.Repeat("ü", 127) + "\uFFFD" + `" 0 1
http pipe "" 0 1`
	if got := loginsOf(sources); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	l.Reset()
	if protocols, sources := l.Counts(); len(protocols)+len(sources) != 0 {
		t.Error(protocols, sources)
	}
	l.Count("amqp", "192.0.2.1:1000", "a", true)
	if protocols, sources := l.Counts(); len(protocols) != 1 || len(sources) != 1 {
		t.Error(protocols, sources)
	}
}

// However many sources try, no more than MaxLoginSources are kept, and those that try still stay; the sums have all.
func TestLoginSourcesAreBounded(t *testing.T) {
	var l Logins
	const tries = 3 * MaxLoginSources
	for i := range tries {
		l.Count("amqp", "192.0.2.1:1", fmt.Sprint("guess", i), false)
		l.Count("amqp", "192.0.2.2:1", "program", false)
	}
	protocols, sources := l.Counts()
	if len(sources) != MaxLoginSources || protocols[0].Refused != 2*tries {
		t.Fatalf("%d sources, %d attempts", len(sources), protocols[0].Refused)
	}
	if !slices.ContainsFunc(sources, func(a LoginAttempts) bool { return a.User == "program" && a.Refused == tries }) {
		t.Error("a source that tries all the time was forgotten")
	}
}

package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// C-8: a match that is broken off is reported, costs nothing until it is tried again, and is tried
// again later each time; what is found besides stands.
func TestBrokenOffMatches(t *testing.T) {
	c := catalog.New()
	apply := func(cmd catalog.Command) {
		t.Helper()
		if r := c.Apply(c.View().Index()+1, 0, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	put := func(name, pattern string, priority int64) {
		t.Helper()
		apply(&catalog.PutPolicy{Policy: catalog.Policy{
			VHost: "/", Name: name, Pattern: pattern, ApplyTo: catalog.ApplyToAll, Priority: priority,
			Definition: message.Table{{Name: "max-length", Value: message.Int64(5)}},
		}})
	}
	put("slow", "^(a+)+$", 1)
	put("plain", "^a", 0)
	now, warned := time.Unix(1000, 0), 0
	b := Matcher{Warn: func(string, error) { warned++ }, Now: func() time.Time { return now }}
	q := &catalog.QueueRecord{VHost: "/", Name: strings.Repeat("a", 200) + "b", Type: catalog.QueueQuorum}
	look := func(want int) {
		t.Helper()
		for range 3 {
			if p, _ := b.Queue(c.View(), q); p == nil || p.Name != "plain" {
				t.Fatalf("policy %v", p)
			}
		}
		slow, _ := c.View().Policy("/", "slow", false)
		if n := b.Timeouts(c.View(), slow); warned != want || n != uint64(want) || b.AllTimeouts() != uint64(want) {
			t.Fatalf("warned %d times, counted %d of %d; want %d", warned, n, b.AllTimeouts(), want)
		}
	}
	look(1)
	now = now.Add(firstRetry - 1)
	look(1)
	now = now.Add(1)
	look(2)
	now = now.Add(firstRetry)
	look(2) // it waits twice as long now
	now = now.Add(firstRetry)
	look(3)
	now = now.Add(mostRetry)
	look(4)
	// Another policy changes: what is known of this one stays, but names are looked at anew.
	put("other", "^b", 0)
	look(5)
	// Others are found as before.
	if p, _ := b.Queue(c.View(), &catalog.QueueRecord{VHost: "/", Name: "aaa", Type: catalog.QueueQuorum}); p == nil || p.Name != "slow" {
		t.Errorf("policy %v", p)
	}
}

// Vhosts that come and go leave nothing behind for long.
func TestMatcherForgetsVHosts(t *testing.T) {
	v := catalog.New().View()
	var b Matcher
	for i := range 20 * minForget {
		b.vhostPolicies(v, fmt.Sprint("gone-", i))
		if n := len(b.vhosts); n > minForget {
			t.Fatalf("after %d vhosts that are gone %d are kept", i+1, n)
		}
	}
	b.vhostPolicies(v, catalog.DefaultVHost)
	for i := range 2 * minForget {
		b.vhostPolicies(v, fmt.Sprint("more-", i))
	}
	if _, kept := b.vhosts[catalog.DefaultVHost]; !kept {
		t.Error("one that exists was dropped")
	}
}

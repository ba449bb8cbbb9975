package permission

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
)

// evil returns a name that makes the pattern ^(a+)+$ backtrack for ever.
func evil(i int) string { return strings.Repeat("a", 100) + strconv.Itoa(i) + "b" }

// Names that make a permission's pattern backtrack cost their own user. The user may spend so much
// processor time and no more; after that, such names are refused without a match. Known answers for
// other names stay, and so does the budget of other users (C-8).
func TestSlowPermissions(t *testing.T) {
	var log bytes.Buffer
	var timeouts atomic.Uint64
	b := New(Config{Timeouts: &timeouts, Log: slog.New(slog.NewTextHandler(&log, nil))})
	const names = 60
	mine := b.grantOf(&catalog.Permission{User: "mine", VHost: "/", Write: `^(a+)+$`, Read: ".*"})
	if !mine.Matches(Write, "aaa") {
		t.Error("a name that matches at once does not match")
	}
	if mine.Matches(Write, evil(0)) {
		t.Error("a match that is broken off counts")
	}
	if !mine.Matches(Write, "aaaa") {
		t.Error("a quick name of a slow pattern does not match")
	}
	began := time.Now()
	for i := range names {
		if mine.Matches(Write, evil(i)) {
			t.Error("a match that is broken off counts")
		}
	}
	took := time.Since(began)
	tried, most := timeouts.Load(), uint64(SlowMatches+2+took/SlowMatchEvery) // positive
	if tried > most || tried < SlowMatches {
		t.Errorf("%d matches were tried and broken off in %v, want at most %d", tried, took, most)
	}
	if !mine.Matches(Write, "aaaa") || !mine.Matches(Read, "anything") {
		t.Error("a name that was known, or another pattern, does not match any more")
	}
	other := b.grantOf(&catalog.Permission{User: "other", VHost: "/", Write: `^(a+)+$`})
	before := timeouts.Load()
	other.Matches(Write, evil(0))
	if !other.Matches(Write, "aaaaa") || timeouts.Load() != before+1 {
		t.Error("another user pays for it")
	}
	if lines := strings.Count(log.String(), "\n"); lines < 2 || lines > SlowMatchLines+int(took/SlowMatchLineEvery)+1 {
		t.Errorf("%d lines:\n%s", lines, &log)
	}
}

func TestSlowBudgets(t *testing.T) {
	var b slowBudgets
	now := time.Unix(1_800_000_000, 0)
	for range SlowMatches {
		if !b.take("a", now) {
			t.Fatal("too few")
		}
	}
	if b.take("a", now) || !b.take("b", now) {
		t.Error("a budget is not its user's own")
	}
	if b.giveBack("a"); !b.take("a", now) || b.take("a", now) {
		t.Error("what is given back is not there once")
	}
	if now = now.Add(SlowMatchEvery); !b.take("a", now) || b.take("a", now) {
		t.Error("there is not one more after a while")
	}
	for i := range 2 * maxSlowUsers {
		b.take(strconv.Itoa(i), now)
	}
	if len(b.all) > maxSlowUsers {
		t.Errorf("%d users are kept", len(b.all))
	}
	s := &slowPattern{}
	for i := range 2 * maxSlowNames {
		s.keep(strconv.Itoa(i), slowMatch{})
	}
	if len(s.answers) > maxSlowNames {
		t.Errorf("%d names are kept", len(s.answers))
	}
}

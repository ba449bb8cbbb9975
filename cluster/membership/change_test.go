package membership

import (
	"math"
	"testing"
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A snapshot is taken for a joining member only where the others lack fewer entries than it leaves behind.
func TestHasNearly(t *testing.T) {
	for _, x := range []struct {
		what       string
		member     *nodev1.GroupStatus
		last, kept uint64
		want       bool
	}{
		{"no member", nil, 5000, 1024, false},
		{"all", &nodev1.GroupStatus{LastIndex: 5000}, 5000, 1024, true},
		{"as many as may be lacking", &nodev1.GroupStatus{LastIndex: 5000 - 512}, 5000, 1024, true},
		{"one more is lacking", &nodev1.GroupStatus{LastIndex: 5000 - 513}, 5000, 1024, false},
		{"few stay", &nodev1.GroupStatus{LastIndex: 5000 - 9}, 5000, 16, false},
		{"all stay", &nodev1.GroupStatus{LastIndex: 1}, 5000, math.MaxUint64, true},
		{"more came meanwhile", &nodev1.GroupStatus{LastIndex: 5001}, 5000, 16, true},
		{"it has failed", &nodev1.GroupStatus{LastIndex: 5000, Failed: "damaged"}, 5000, 1024, false},
	} {
		if got := hasNearly(x.member, x.last, x.kept); got != x.want {
			t.Errorf("%s: %v", x.what, got)
		}
	}
}

// A joining member that applies nothing while it gets a snapshot is not given up as long as the stream continues. It
// is once the stream stands still, also if attempts that follow get as far as the first one.
func TestSnapshotIsProgressOfAJoin(t *testing.T) {
	begun := time.Unix(1000, 0)
	s := changeState{moved: begun}
	now := begun
	for sent := int64(1); now.Sub(begun) < 4*joinPatience; sent++ {
		now = now.Add(joinPatience - time.Second)
		if s.gains(now, 0, sent<<20) || s.stuck(now) {
			t.Fatalf("after %v: stuck %v", now.Sub(begun), s.stuck(now))
		}
	}
	far, still := s.sent, now
	for _, sent := range []int64{far, 0, far / 2, far} {
		if now = now.Add(joinPatience / 4); s.stuck(now) {
			t.Fatalf("given up after %v", now.Sub(still))
		}
		s.gains(now, 0, sent)
	}
	if now = now.Add(time.Second); !s.stuck(now) {
		t.Error("not given up although nothing moves")
	}
	if !s.gains(now, 7, 0) || s.gains(now, 7, 0) || s.stuck(now) {
		t.Error("entries are no progress")
	}
	if s.gains(now.Add(joinPatience+1), 0, 0) || !s.stuck(now.Add(joinPatience+1)) {
		t.Error("not given up although it does not answer")
	}
}

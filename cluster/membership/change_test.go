package membership

import (
	"math"
	"testing"

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

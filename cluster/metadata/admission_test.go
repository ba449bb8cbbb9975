package metadata

import "testing"

// RE-9: who may act at a start.
func TestTakesPart(t *testing.T) {
	for _, c := range []struct {
		stored, whole, admitted, promised, want bool
	}{
		{true, true, true, true, true},
		{true, true, true, false, true},
		{true, true, false, true, true}, // it founds
		{false, true, false, true, true},
		{false, true, false, false, false}, // it is new
		{false, true, true, true, false},   // it has lost its log
		{false, true, true, false, false},
		{true, false, true, true, false}, // its log is short
		{false, false, false, true, false},
	} {
		if got := TakesPart(c.stored, c.whole, c.admitted, c.promised); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

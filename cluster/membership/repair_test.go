package membership

import (
	"testing"
	"time"
)

func TestMendingGrowsRare(t *testing.T) {
	var m mending
	now := time.Unix(1000, 0)
	for want := mendAgain; want < mendLongest; want *= 2 {
		if !m.due(now) {
			t.Fatalf("not due after %v", want/2)
		}
		m.began(now)
		if m.due(now.Add(want - 1)) {
			t.Fatalf("due before %v", want)
		}
		now = now.Add(want)
	}
	m.began(now)
	if !m.due(now.Add(mendLongest)) {
		t.Error("not due after the longest wait")
	}
}

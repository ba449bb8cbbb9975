package pulse

import (
	"testing"
	"time"
)

// until waits for a condition.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never comes")
		}
	}
}

// What the kernel says of a connection: nothing waits once all is acknowledged, and of a closed one it says nothing.
func TestRetransmissionOf(t *testing.T) {
	mine, theirs := tcpPair(t)
	if _, err := mine.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		r, known := retransmissionOf(mine)
		return known && !r.waits && r.fails == 0 && r.until > 0
	})
	until(t, func() bool {
		r, known := retransmissionOf(mine)
		return known && r.since >= 20*time.Millisecond
	})
	Reset(mine)
	if r, known := retransmissionOf(mine); known {
		t.Errorf("of a closed connection: %+v", r)
	}
}

package gateway

import (
	"testing"

	"github.com/quorate/quorate/raftfsm"
)

// Only a command that may have reached a log is uncertain. A consumer whose registration is
// uncertain does not rely on what was delivered before the answer, and with auto-ack loses it.
func TestUncertain(t *testing.T) {
	for _, c := range []struct {
		name              string
		definite, current bool
		uncertain         bool
	}{
		{"the member that was asked does not lead", true, true, false},
		{"nobody knows", false, true, true},
		{"an older attempt was refused", true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ops opQueue
			o := &op{repeat: again, sent: true, done: func(opResult) { t.Error("answered") }}
			ops.add([]*op{o})
			ops.failed(o, c.definite, c.current, raftfsm.ErrUnknownOutcome, 1024, &outbox{})
			ops.rewind()
			if o.uncertain != c.uncertain || o.sent {
				t.Errorf("uncertain is %v, sent %v", o.uncertain, o.sent)
			}
		})
	}
}

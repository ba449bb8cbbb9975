package pattern

import (
	"errors"
	"testing"
)

// C-8: a match that was late once or twice, because the machine was busy, is no refusal.
func TestPersist(t *testing.T) {
	for late, want := range map[int]bool{0: true, 1: true, tries - 1: true, tries: false} {
		calls := 0
		found, inTime := persist(func() (bool, error) {
			if calls++; calls <= late {
				return false, errors.New("late")
			}
			return true, nil
		})
		if found != want || inTime != want || calls > tries {
			t.Errorf("late %d times: found %v, in time %v, after %d calls", late, found, inTime, calls)
		}
	}
}

package rest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A node has a few slots, a user some of them; who waits gets the next one that is freed, for some time.
func TestMessageSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMessageSlots()
		takes := func(user string, want bool) {
			t.Helper()
			begin := time.Now()
			got, err := s.take(t.Context(), user)
			if got != want || err != nil {
				t.Fatalf("user %q: %t, %v", user, got, err)
			}
			if waited := time.Since(begin); !want && waited != slotPatience {
				t.Errorf("user %q waited %v", user, waited)
			}
		}
		for range messageRequestsOfUser {
			takes("slow", true)
		}
		takes("slow", false) // others have what is left
		for range messageRequests - messageRequestsOfUser {
			takes("other", true)
		}
		takes("third", false)
		got := make(chan bool)
		go func() {
			taken, _ := s.take(t.Context(), "third")
			got <- taken
		}()
		synctest.Wait()
		s.free("slow")
		if !<-got {
			t.Error("a slot that was freed is not taken")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if taken, err := s.take(ctx, "slow"); taken || !errors.Is(err, context.Canceled) {
			t.Errorf("after the caller has left: %t, %v", taken, err)
		}
		s.free("slow")
		s.free("third")
		for range messageRequests - messageRequestsOfUser {
			s.free("other")
		}
		for range messageRequests {
			takes("", true) // without logins all have the same name
		}
		takes("", false)
		for range messageRequests {
			s.free("")
		}
		if s.taken != 0 || len(s.of) != 0 {
			t.Errorf("%d slots and %d users are left", s.taken, len(s.of))
		}
	})
}

package slot

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A node has a few slots, a user some of them; who waits gets the next one that is freed, for some time.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		takes := func(user string, want bool) {
			t.Helper()
			begin := time.Now()
			_, got, err := s.Take(t.Context(), user)
			if got != want || err != nil {
				t.Fatalf("user %q: %t, %v", user, got, err)
			}
			if waited := time.Since(begin); !want && waited != slotPatience {
				t.Errorf("user %q waited %v", user, waited)
			}
		}
		for range RequestsOfUser {
			takes("slow", true)
		}
		takes("slow", false) // others have what is left
		for range Requests - RequestsOfUser {
			takes("other", true)
		}
		takes("third", false)
		got := make(chan bool)
		go func() {
			_, taken, _ := s.Take(t.Context(), "third")
			got <- taken
		}()
		synctest.Wait()
		s.free("slow")
		if !<-got {
			t.Error("a slot that was freed is not taken")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, taken, err := s.Take(ctx, "slow"); taken || !errors.Is(err, context.Canceled) {
			t.Errorf("after the caller has left: %t, %v", taken, err)
		}
		s.free("slow")
		s.free("third")
		for range Requests - RequestsOfUser {
			s.free("other")
		}
		for range Requests {
			takes("", true) // without logins all have the same name
		}
		takes("", false)
		for range Requests {
			s.free("")
		}
		if s.taken != 0 || len(s.of) != 0 {
			t.Errorf("%d slots and %d users are left", s.taken, len(s.of))
		}
	})
}

// A request that keeps its slot has one, however often what it asks takes one, and until it ends.
func TestKeep(t *testing.T) {
	s := New()
	ctx, end := Keep(t.Context())
	for range Requests + 1 {
		free, taken, err := s.Take(ctx, "user")
		if !taken || err != nil {
			t.Fatal(taken, err)
		}
		free()
	}
	if s.taken != 1 || s.of["user"] != 1 {
		t.Errorf("%d slots are taken, want 1", s.taken)
	}
	end()
	if s.taken != 0 || len(s.of) != 0 {
		t.Errorf("%d slots are left after the end", s.taken)
	}
	free, taken, err := s.Take(ctx, "user") // of a request that continues: it keeps nothing any more
	if !taken || err != nil {
		t.Fatal(taken, err)
	}
	free()
	end()
	if s.taken != 0 {
		t.Errorf("%d slots are left", s.taken)
	}
}

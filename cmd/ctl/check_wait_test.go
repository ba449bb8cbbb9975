package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/checks"
)

// A check that waits looks until it finds nothing, for no longer than it may, and prints what it waits for when that
// changes. Refusals and mistakes do not pass, so they end it.
func TestAwaitNone(t *testing.T) {
	type result struct {
		found []checks.Problem
		err   error
	}
	none := result{}
	still := result{found: []checks.Problem{{Object: "queue q", Problem: "it stands still"}}}
	away := result{err: unreachableError{errors.New("no node answers")}}
	starts := result{err: &client.Error{Code: codes.Unavailable, Text: "the node starts"}}
	refused := result{err: &client.Error{Code: codes.Unauthenticated, Text: "wrong password"}}
	mistake := result{err: errors.New(`node "nobody" is not in the cluster`)}
	two := result{found: append(still.found, still.found...)}
	for _, row := range []struct {
		what    string
		wait    time.Duration
		results []result // of one look after the other; the last one stays
		looks   int
		took    time.Duration
		printed []string
	}{
		{"nothing is found", time.Minute, []result{none}, 1, 0, nil},
		{"it does not wait", 0, []result{still}, 1, 0, nil},
		{"it goes", time.Minute, []result{two, two, still, none}, 4, 3 * time.Second, []string{
			"waiting for 1m0s at most: 2 problems, the first: queue q: it stands still",
			"waiting for 58s at most: queue q: it stands still",
		}},
		{"it stays", 2500 * time.Millisecond, []result{still}, 4, 2500 * time.Millisecond, []string{
			"waiting for 3s at most: queue q: it stands still",
		}},
		{"nodes are away at first", time.Minute, []result{away, starts, none}, 3, 2 * time.Second, []string{
			"waiting for 1m0s at most: no node answers", "waiting for 59s at most: the node starts",
		}},
		{"no node comes", time.Second, []result{away}, 2, time.Second, []string{"waiting for 1s at most: no node answers"}},
		{"it is refused", time.Minute, []result{refused}, 1, 0, nil},
		{"there is a mistake", time.Minute, []result{mistake}, 1, 0, nil},
	} {
		t.Run(row.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				began, looks := time.Now(), 0
				var last result
				found, err := awaitNone(t.Context(), row.wait, &out, func() ([]checks.Problem, error) {
					last = row.results[min(looks, len(row.results)-1)]
					looks++
					return last.found, last.err
				})
				if !slices.Equal(found, last.found) || !errors.Is(err, last.err) {
					t.Errorf("%v, %v, want %v", found, err, last)
				}
				if took := time.Since(began); looks != row.looks || took != row.took {
					t.Errorf("%d looks in %v, want %d in %v", looks, took, row.looks, row.took)
				}
				if printed := slices.Collect(strings.Lines(out.String())); !slices.Equal(printed, withLineEnds(row.printed)) {
					t.Errorf("printed %q, want %q", printed, row.printed)
				}
			})
		})
	}
}

func withLineEnds(lines []string) (all []string) {
	for _, l := range lines {
		all = append(all, l+"\n")
	}
	return all
}

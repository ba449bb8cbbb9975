package fault

import (
	"slices"
	"testing"
	"time"
)

func TestScheduleIsTheSeeds(t *testing.T) {
	kinds := Kinds()
	a, b, c := Schedule(kinds, 7, time.Minute), Schedule(kinds, 7, time.Minute), Schedule(kinds, 8, time.Minute)
	if !slices.Equal(a, b) || slices.Equal(a, c) || len(a) < 5 {
		t.Fatalf("schedules\n%v\n%v\n%v", a, b, c)
	}
}

// A run that is long enough has every kind, whatever the seed.
func TestScheduleHasEveryKind(t *testing.T) {
	kinds := Kinds()
	for seed := range uint64(20) {
		steps := Schedule(kinds, seed, time.Duration(len(kinds)+2)*meanSpacing*3/2+2*calm)
		for _, k := range kinds {
			if !slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == k.Name }) {
				t.Errorf("seed %d has no %s in %d steps", seed, k.Name, len(steps))
			}
		}
	}
}

// What takes long comes half as often as other kinds.
func TestScheduleHasLongKindsHalfAsOften(t *testing.T) {
	kinds := Kinds()
	count := map[string]int{}
	for _, s := range Schedule(kinds, 1, 2*time.Hour) {
		count[s.Kind]++
	}
	for _, k := range kinds {
		want := count["kill"]
		if k.Long {
			want /= 2
		}
		if n := count[k.Name]; n < want-1 || n > want+1 {
			t.Errorf("%s comes %d times, kill %d times", k.Name, n, count["kill"])
		}
	}
	only := slices.DeleteFunc(kinds, func(k Kind) bool { return !k.Long })
	if n := len(Schedule(only, 1, time.Minute)); len(only) == 0 || n < 5 {
		t.Errorf("%d of %d long kinds alone come in a minute", n, len(only))
	}
}

func TestChoose(t *testing.T) {
	free := []string{"a", "b", "c", "d", "e"}
	tests := []struct {
		role  Role
		free  []string
		leads string
		want  int
		first string // "": any but the leader
	}{
		{Leader, free, "c", 1, "c"},
		{Leader, []string{"a", "b"}, "c", 1, ""}, // another fault holds it
		{Follower, free, "c", 1, ""},
		{Follower, []string{"c"}, "c", 1, "c"},
		{Majority, free, "c", 3, "c"},
		{Majority, []string{"a", "b", "d"}, "c", 2, ""},
		{All, free, "c", 5, "c"},
		{All, free, "", 5, ""},
		{Anyone, []string{"c"}, "c", 1, "c"},
	}
	for _, test := range tests {
		for pick := range uint64(7) {
			got := Choose(test.free, test.leads, test.role, pick)
			if len(got) != test.want || (test.first == "") == (got[0] == test.leads) {
				t.Errorf("%s of %v led by %q, pick %d: %v", test.role, test.free, test.leads, pick, got)
			}
			if slices.Sort(got); len(slices.Compact(got)) != test.want {
				t.Errorf("%s: %v has a node twice", test.role, got)
			}
		}
	}
}

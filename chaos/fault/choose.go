package fault

import "slices"

// Choose returns the nodes of a role among those that are free, the leader first if it is
// among them; leader may be empty or not free.
func Choose(free []string, leader string, r Role, pick uint64) []string {
	var others []string
	for _, n := range free {
		if n != leader {
			others = append(others, n)
		}
	}
	others = rotated(others, pick)
	led := slices.Contains(free, leader)
	switch {
	case r == All && led:
		return append([]string{leader}, others...)
	case r == All:
		return others
	case r == Majority && led:
		return append([]string{leader}, others[:min(len(free)/2, len(others))]...)
	case r == Majority:
		return others[:min(len(free)/2+1, len(others))]
	case r == Leader && led:
		return []string{leader}
	case r == Anyone:
		return rotated(free, pick)[:1]
	case len(others) > 0:
		return others[:1]
	default:
		return []string{leader}
	}
}

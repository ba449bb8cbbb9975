// Package nearest finds the known name that is closest to a mistyped one.
package nearest

// Name returns the known name with the smallest edit distance in bytes; of equal ones the first. It
// returns "" if the distance is more than a third of the name's length, but it always allows two.
// It is pure, for concurrent use.
func Name(name string, known []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance: how many bytes to insert, delete or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

package files

import "slices"

func high(l low) int {
	l.method()
	l.field = constant
	for _, each := range slices.Clone(l.list) {
		each.method()
	}
	return variable + function() + same()
}

func same() int { return 0 }

//go:build never

package files

func never() int { return function() }

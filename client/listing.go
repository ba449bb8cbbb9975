package client

import (
	"iter"
	"strings"
)

// Collect gathers the items of a listing up to its error.
func Collect[T any](listing iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for x, err := range listing {
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}

// SilentNodesError reports that a listing of what nodes keep in memory lacks the data of these
// nodes, because they did not answer. It follows the data of all others.
type SilentNodesError struct{ Nodes []string }

// Error implements error.
func (e *SilentNodesError) Error() string {
	return "client: the listing is incomplete; these nodes did not answer: " + strings.Join(e.Nodes, ", ")
}

// fromAll is a listing of what all nodes keep in memory, except the silent ones.
func fromAll[T any](all func() (items []T, silent []string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		items, silent, err := all()
		if err == nil && len(silent) > 0 {
			err = &SilentNodesError{silent}
		}
		for _, x := range items {
			if !yield(x, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// pages is a listing in pages. page returns a page and the token of the next one, "" on the last.
// The first token is "". Each page is fetched when the one before is used up. An error ends the
// listing.
func pages[T any](page func(token string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			items, next, err := page(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, x := range items {
				if !yield(x, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

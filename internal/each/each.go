// Package each calls a function for many items, for some of them at the same time.
package each

import (
	"errors"
	"sync"
)

// Of calls f for all items, for at most the given number at the same time, which must be positive.
// It joins the errors in the order of the items.
func Of[T any](all []T, most int, f func(T) error) error {
	var work sync.WaitGroup
	slots := make(chan struct{}, most)
	errs := make([]error, len(all))
	for i, x := range all {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(x)
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// Package each does something with all of many, some at the same time.
package each

import (
	"errors"
	"sync"
)

// Of runs f for all, up to most at the same time, which is above 0, and joins the errors in the order of all.
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

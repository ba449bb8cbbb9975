package quorumq

// annotations counts the messages that share a body of annotations: one return may have
// annotated many (DEL-11). A command that is about to give them out counts as one of them.
//
// Invariant: a body is there as long as its count is above 0; the zero BodyRef never is.
type annotations map[BodyRef]uint32

// share counts one more message.
func (a annotations) share(r BodyRef) {
	if r != (BodyRef{}) {
		a[r]++
	}
}

// drop counts one less, and releases the body with the last.
func (a annotations) drop(r BodyRef, e *Effects) {
	if r == (BodyRef{}) {
		return
	}
	if n := a[r]; n > 1 {
		a[r] = n - 1
		return
	}
	delete(a, r)
	e.release(r)
}

// check returns what is inconsistent, where messages refer to so many of each body.
func (a annotations) check(shared map[BodyRef]uint32) error {
	if len(shared) != len(a) {
		return inv("%d bodies of annotations, counted %d", len(shared), len(a))
	}
	for r, n := range shared {
		if a[r] != n {
			return inv("annotations %v are shared by %d, counted %d", r, n, a[r])
		}
	}
	return nil
}

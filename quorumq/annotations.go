package quorumq

// annotations counts how many messages share a body of annotations, because one return may annotate
// many messages (DEL-11). While a command gives its annotations to messages, the command counts as
// one too.
//
// Invariant: a body is in the map as long as its count is above 0; the zero BodyRef never is.
type annotations map[BodyRef]uint32

// share counts one more message.
func (a annotations) share(r BodyRef) {
	if r != (BodyRef{}) {
		a[r]++
	}
}

// drop counts one message less, and releases the body when the last one is gone.
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

// check returns an inconsistency; shared is how many messages refer to each body.
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

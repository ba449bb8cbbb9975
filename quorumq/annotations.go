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

// drop counts one less and tells whether that was the last: nobody needs the body any more.
func (a annotations) drop(r BodyRef) (last bool) {
	if r == (BodyRef{}) {
		return false
	}
	if n := a[r]; n > 1 {
		a[r] = n - 1
		return false
	}
	delete(a, r)
	return true
}

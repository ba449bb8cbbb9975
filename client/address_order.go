package client

import "slices"

// addressOrder has the addresses that one call prefers, in the order of its next tries. A node that answers probes may still fail
// the call each time: it does not reach the queue's leader, or cannot read its copy. So a failed try moves
// on to the next address.
type addressOrder struct {
	addresses []string
	left      int // addresses in front that have not been tried
}

func newAddressOrder(addresses []string) *addressOrder {
	return &addressOrder{addresses: addresses, left: len(addresses)}
}

// failed moves the address that a failed try has asked to the end, with those in front of it, which were passed over. If
// it is none of the addresses, all were passed over. failed reports whether an address is left that has not been tried.
func (t *addressOrder) failed(asked string) bool {
	i := slices.Index(t.addresses, asked)
	if i < 0 {
		t.left = 0
		return false
	}
	t.addresses = slices.Concat(t.addresses[i+1:], t.addresses[:i+1])
	t.left = max(0, t.left-i-1)
	return t.left > 0
}

package broker

import (
	"context"

	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
)

// viewToDeclare returns the view by which a declare is answered; exists reports whether a view has what is declared.
//
// A declare of what exists is only compared with it, so it needs fewer rights than one that creates it (VH-7), and its
// arguments are not checked. It must not be proposed: what this node's view has may have been deleted, and the
// catalog would create it without those checks. So a view that has it is confirmed first, and compared answers from
// it.
func (b *Broker) viewToDeclare(ctx context.Context, exists func(*catalog.View) bool) (*catalog.View, error) {
	v := b.view()
	if !exists(v) {
		return v, nil
	}
	if err := b.group.ConfirmEverywhere(ctx); err != nil {
		return nil, serving.ErrStale(err)
	}
	return b.view(), nil
}

// compared answers a declare of what the view has (Q-13, EX-5). Nothing is proposed.
func compared(v *catalog.View, cmd catalog.Command) (catalog.Reply, error) {
	r := catalog.From(v).Apply(v.Index(), v.Now(), cmd)
	if r.Err != nil {
		return r, r.Err
	}
	return r, nil
}

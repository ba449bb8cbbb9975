package policy

import (
	"errors"
	"strconv"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// Declaration is what a client asks for when it declares a queue that does not exist yet.
// A redeclare is not checked here but compared by the catalog.
type Declaration struct {
	Name       string // "" asks the broker to name the queue
	Durable    bool
	Exclusive  bool
	AutoDelete bool
	Arguments  message.Table
}

// ResolveDeclaration finds the type of a new queue, checks properties against it
// and arguments as Resolve does. vhostDefault is the type for declarations that
// name none and are fit for it; "" means quorum. All faults are returned at once, joined,
// each an *ArgumentError.
func ResolveDeclaration(d Declaration, vhostDefault catalog.QueueType) (Effective, error) {
	e, err := ResolveAs(d.Arguments, DefaultType(d, vhostDefault))
	var faults []error
	if err != nil {
		faults = append(faults, err)
	}
	if t, ok := requestedType(d, vhostDefault); ok {
		faults = append(faults, d.checkProperties(t)...)
	}
	if len(faults) > 0 {
		return Effective{}, errors.Join(faults...)
	}
	return e, nil
}

// DefaultType is the type of a declaration that names none.
func DefaultType(d Declaration, vhostDefault catalog.QueueType) catalog.QueueType {
	if d.Name != "" && d.Durable && !d.Exclusive && !d.AutoDelete && vhostDefault != catalog.QueueClassic {
		return catalog.QueueQuorum
	}
	return catalog.QueueClassic
}

// requestedType is the type of the declaration; ok is false when the argument is faulty.
func requestedType(d Declaration, vhostDefault catalog.QueueType) (t catalog.QueueType, ok bool) {
	v, named := d.Arguments.Get(argType)
	if !named {
		return DefaultType(d, vhostDefault), true
	}
	s, _ := v.AsString()
	t = catalog.QueueType(s)
	return t, t == catalog.QueueQuorum || t == catalog.QueueClassic
}

// checkProperties names what a quorum queue cannot be; a classic one can be all.
func (d *Declaration) checkProperties(t catalog.QueueType) []error {
	if t != catalog.QueueQuorum {
		return nil
	}
	a := arguments{}
	for _, p := range [...]struct {
		name         string
		value, wants bool
	}{
		{"durable", d.Durable, true},
		{"exclusive", d.Exclusive, false},
		{"auto_delete", d.AutoDelete, false},
	} {
		if p.value != p.wants {
			a.fault(p.name, strconv.FormatBool(p.value), "quorum queues need "+p.name+" = "+strconv.FormatBool(p.wants)+
				"; or make it a classic queue, with x-queue-type")
		}
	}
	if d.Name == "" {
		a.fault("name", `""`, "quorum queues need a name; classic ones may be named by the broker")
	}
	return a.faults
}

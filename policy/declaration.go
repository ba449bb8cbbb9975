package policy

import (
	"errors"
	"strconv"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// Declaration is a client's declaration of a queue that does not exist yet. The catalog compares
// redeclarations.
type Declaration struct {
	Name       string // "" asks the broker to name the queue
	Durable    bool
	Exclusive  bool
	AutoDelete bool
	Arguments  message.Table
}

// ResolveDeclaration finds the type of a new queue, checks properties against it and
// arguments as Resolve does. vhostDefault is the type of declarations that name none and are
// permitted for it; "" means quorum. All faults are returned at once, joined, each an
// *argument.Error.
func ResolveDeclaration(d Declaration, vhostDefault catalog.QueueType) (argument.Settings, error) {
	s, err := argument.Resolve(d.Arguments, DefaultType(d, vhostDefault) == catalog.QueueClassic)
	var faults []error
	if err != nil {
		faults = append(faults, err)
	}
	if t, ok := requestedType(d, vhostDefault); ok {
		faults = append(faults, d.checkProperties(t)...)
	}
	if len(faults) > 0 {
		return argument.Settings{}, errors.Join(faults...)
	}
	return s, nil
}

// DefaultType returns the queue type of a declaration that names none.
func DefaultType(d Declaration, vhostDefault catalog.QueueType) catalog.QueueType {
	if d.Name != "" && d.Durable && !d.Exclusive && !d.AutoDelete && vhostDefault != catalog.QueueClassic {
		return catalog.QueueQuorum
	}
	return catalog.QueueClassic
}

// requestedType is the type of the declaration; ok is false when the argument is faulty.
func requestedType(d Declaration, vhostDefault catalog.QueueType) (t catalog.QueueType, ok bool) {
	v, named := d.Arguments.Get(argument.QueueType)
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
	var faults []error
	fault := func(name, value, reason string) {
		faults = append(faults, &argument.Error{Arg: name, Value: value, Reason: reason})
	}
	for _, p := range [...]struct {
		name         string
		value, wants bool
	}{
		{"durable", d.Durable, true},
		{"exclusive", d.Exclusive, false},
		{"auto_delete", d.AutoDelete, false},
	} {
		if p.value != p.wants {
			fault(p.name, strconv.FormatBool(p.value), "quorum queues need "+p.name+" = "+strconv.FormatBool(p.wants)+
				"; or make it a classic queue, with x-queue-type")
		}
	}
	if d.Name == "" {
		fault("name", `""`, "quorum queues need a name; classic ones may be named by the broker")
	}
	return faults
}

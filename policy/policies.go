package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/nearest"
	"github.com/quorate/quorate/internal/pattern"
	"github.com/quorate/quorate/message"
)

// keyAlternateExchange is the one key that exchanges honour; queues do not.
const keyAlternateExchange = "alternate-exchange"

// Check returns all faults of a policy's pattern and definition, joined, each an *argument.Error
// that names the key (PO-1, PO-2, PO-5). The catalog checks the rest.
func Check(p *catalog.Policy) error {
	var faults []error
	fault := func(name, value, reason string) {
		faults = append(faults, &argument.Error{Arg: name, Value: value, Reason: reason})
	}
	if _, err := pattern.Compile(p.Pattern); err != nil {
		fault("pattern", fmt.Sprintf("%q", p.Pattern), err.Error())
	}
	seen := map[string]bool{}
	for _, f := range p.Definition {
		row := argument.ByKey(f.Name)
		switch {
		case seen[f.Name]:
			fault(f.Name, f.Value.String(), "stands twice in the definition")
		case f.Name == keyAlternateExchange && !p.Operator:
			if s, isString := f.Value.AsString(); !isString || len(s) > catalog.MaxNameBytes {
				fault(f.Name, f.Value.String(), fmt.Sprintf("want the name of an exchange, a string of at most %d bytes", catalog.MaxNameBytes))
			}
		case f.Name == keyAlternateExchange || row != nil && p.Operator && !row.Operators:
			fault(f.Name, f.Value.String(), "cannot be given by operator policies; rule PO-5 of docs/semantics.md lists what can")
		case row == nil:
			fault(f.Name, f.Value.String(), unknownKey(f.Name, p.Operator))
		}
		seen[f.Name] = true
	}
	return errors.Join(errors.Join(faults...), checkValues(p.Definition))
}

// checkValues checks the values as those of arguments.
func checkValues(definition message.Table) error {
	// A routing key without exchange is fine in a policy: the exchange may come from elsewhere.
	_, err := argument.Resolve(argument.Of(definition), false)
	if err == nil {
		return nil
	}
	return renamed(err)
}

// renamed gives faults of arguments the names of policy keys.
func renamed(err error) error {
	var faults []error
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	for _, fault := range joined.Unwrap() {
		var a *argument.Error
		if errors.As(fault, &a) {
			b := *a
			for r := range argument.Rows() {
				if r.Key == "" {
					continue
				}
				if r.Name == a.Arg {
					b.Arg = r.Key
				}
				b.Reason = strings.ReplaceAll(b.Reason, r.Name, r.Key)
			}
			fault = &b
		}
		faults = append(faults, fault)
	}
	return errors.Join(faults...)
}

// unknownKey returns what helps with a key that no policy has.
func unknownKey(name string, operator bool) string {
	var known []string
	if !operator {
		known = append(known, keyAlternateExchange)
	}
	for r := range argument.Rows() {
		if r.Key != "" && (r.Operators || !operator) {
			known = append(known, r.Key)
		}
	}
	if meant := nearest.Name(name, known); meant != "" {
		return fmt.Sprintf("is no policy key; did you mean %q?", meant)
	}
	return "is no policy key; rule PO-2 of docs/semantics.md lists them"
}

// Merge returns the arguments in force for a queue: those of its declaration, merged with its
// policies, which are nil if there are none (PO-6, PO-7).
func Merge(declared message.Table, user, operator *catalog.Policy) message.Table {
	if user == nil && operator == nil {
		return declared
	}
	return argument.Merge(declared, definition(user), definition(operator))
}

// definition is nil for no policy.
func definition(p *catalog.Policy) message.Table {
	if p == nil {
		return nil
	}
	return p.Definition
}

package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/nearest"
	"github.com/quorate/quorate/internal/pattern"
	"github.com/quorate/quorate/message"
)

// Check says all that is wrong with pattern and definition of a policy, joined, each an
// *ArgumentError that names the key (PO-1, PO-2, PO-5). The catalog checks the rest.
func Check(p *catalog.Policy) error {
	a := arguments{}
	if _, err := pattern.Compile(p.Pattern); err != nil {
		a.fault("pattern", fmt.Sprintf("%q", p.Pattern), err.Error())
	}
	seen := map[string]bool{}
	known := map[string]key{}
	for _, k := range keys() {
		known[k.name] = k
	}
	for _, f := range p.Definition {
		k, ok := known[f.Name]
		switch {
		case seen[f.Name]:
			a.fault(f.Name, f.Value.String(), "stands twice in the definition")
		case f.Name == keyAlternateExchange && !p.Operator:
			if s, isString := f.Value.AsString(); !isString || len(s) > catalog.MaxNameBytes {
				a.fault(f.Name, f.Value.String(), fmt.Sprintf("want the name of an exchange, a string of at most %d bytes", catalog.MaxNameBytes))
			}
		case f.Name == keyAlternateExchange || ok && p.Operator && !k.operator:
			a.fault(f.Name, f.Value.String(), "cannot be given by operator policies; rule PO-5 of docs/semantics.md lists what can")
		case !ok:
			a.fault(f.Name, f.Value.String(), unknownKey(f.Name, p.Operator))
		}
		seen[f.Name] = true
	}
	return errors.Join(errors.Join(a.faults...), checkValues(p.Definition))
}

// checkValues checks the values as those of arguments.
func checkValues(definition message.Table) error {
	args := asArguments(definition)
	// A routing key without exchange is fine in a policy: the exchange may come from elsewhere.
	if _, has := args.Get(argDLX); !has {
		args = args.Without(argDLK)
	}
	_, err := Resolve(args)
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
		var a *ArgumentError
		if errors.As(fault, &a) {
			b := *a
			for _, k := range keys() {
				if k.arg == a.Arg {
					b.Arg = k.name
				}
				b.Reason = strings.ReplaceAll(b.Reason, k.arg, k.name)
			}
			fault = &b
		}
		faults = append(faults, fault)
	}
	return errors.Join(faults...)
}

// unknownKey says what helps with a key that no policy has.
func unknownKey(name string, operator bool) string {
	var known []string
	if !operator {
		known = append(known, keyAlternateExchange)
	}
	for _, k := range keys() {
		if k.operator || !operator {
			known = append(known, k.name)
		}
	}
	if meant := nearest.Name(name, known); meant != "" {
		return fmt.Sprintf("is no policy key; did you mean %q?", meant)
	}
	return "is no policy key; rule PO-2 of docs/semantics.md lists them"
}

// asArguments turns a definition into the arguments of the same meaning.
func asArguments(definition message.Table) message.Table {
	var args message.Table
	for _, k := range keys() {
		if v, ok := definition.Get(k.name); ok {
			args = append(args, message.Field{Name: k.arg, Value: v})
		}
	}
	return args
}

// Merge returns the arguments that are in force for a queue: those of its declaration with
// what its policies give, nil for none (PO-6, PO-7). What policies know nothing of stays.
func Merge(declared message.Table, user, operator *catalog.Policy) message.Table {
	if user == nil && operator == nil {
		return declared
	}
	out := declared.Clone()
	for _, k := range keys() {
		v, ok := k.merging.merged(sources{value(declared, k.arg), given(user, k.name), given(operator, k.name)})
		if ok {
			out.Set(k.arg, v)
		}
	}
	// what is left of the highest delay is not below the lowest.
	low, high := value(out, argRetryMin), value(out, argRetryMax)
	if low != nil && high != nil && integerOf(*high) < integerOf(*low) {
		out.Set(argRetryMax, *low)
	}
	if _, has := out.Get(argDLX); !has {
		out.Delete(argDLK)
	}
	return out
}

func value(t message.Table, name string) *message.Value {
	if v, ok := t.Get(name); ok {
		return &v
	}
	return nil
}

func given(p *catalog.Policy, name string) *message.Value {
	if p == nil {
		return nil
	}
	return value(p.Definition, name)
}

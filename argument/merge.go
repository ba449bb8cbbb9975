package argument

import (
	"math"

	"github.com/quorate/quorate/message"
)

// Merging is how the values of one key from operator policy, argument and policy become one (PO-6,
// PO-7, and the groups of the table of arguments).
type Merging uint8

const (
	// Lowest takes the lowest of all that are set.
	Lowest Merging = iota
	// ArgumentFirst takes the argument, else the policy.
	ArgumentFirst
	// OperatorFirst takes the operator, else the argument, else the policy.
	OperatorFirst
	// Finite takes the lower limit; any limit counts before no limit.
	Finite
	// RetryMin takes the lower of argument and policy, but not below the operator's.
	RetryMin
	// TargetSize takes the higher of both policies if there is an operator policy, else the argument,
	// else the policy.
	TargetSize
)

// Of returns the arguments that a policy definition stands for. A routing key without an exchange
// stands for nothing.
func Of(definition message.Table) message.Table {
	var args message.Table
	for i := range rows {
		if v, ok := definition.Get(rows[i].Key); ok && rows[i].Key != "" {
			args = append(args, message.Field{Name: rows[i].Name, Value: v})
		}
	}
	if _, has := args.Get(dlExchange); !has {
		args = args.Without(dlKey)
	}
	return args
}

// Merge returns the arguments in force for a queue: those of its declaration, merged with its
// policies, which are nil where there are none (PO-6, PO-7). Arguments without a policy key stay.
func Merge(declared, user, operator message.Table) message.Table {
	out := declared.Clone()
	for i := range rows {
		r := &rows[i]
		if r.Key == "" {
			continue
		}
		v, ok := r.Merging.merged(sources{value(declared, r.Name), value(user, r.Key), value(operator, r.Key)})
		if ok {
			out.Set(r.Name, v)
		}
	}
	// the highest delay is never below the lowest.
	low, high := value(out, retryMin), value(out, retryMax)
	if low != nil && high != nil && integerOf(*high) < integerOf(*low) {
		out.Set(retryMax, *low)
	}
	if _, has := out.Get(dlExchange); !has {
		out.Delete(dlKey)
	}
	return out
}

// value returns the argument of a name; nil if the table has none.
func value(t message.Table, name string) *message.Value {
	if v, ok := t.Get(name); ok {
		return &v
	}
	return nil
}

// sources are the values of one key; a nil value is not set.
type sources struct{ argument, policy, operator *message.Value }

// merged returns the value in force.
func (m Merging) merged(s sources) (message.Value, bool) {
	switch m {
	case ArgumentFirst:
		return first(s.argument, s.policy)
	case OperatorFirst:
		return first(s.operator, s.argument, s.policy)
	case Finite:
		return fold(finiteOf, s.operator, s.policy, s.argument)
	case RetryMin:
		low, ok := fold(lowerOf, s.argument, s.policy)
		if !ok {
			return first(s.operator)
		}
		return fold(higherOf, &low, s.operator)
	case TargetSize:
		if s.operator != nil {
			return fold(higherOf, s.operator, s.policy)
		}
		return first(s.argument, s.policy)
	case Lowest:
	}
	return fold(lowerOf, s.argument, s.policy, s.operator)
}

// first returns the first value that is given; false if none is.
func first(all ...*message.Value) (message.Value, bool) {
	for _, v := range all {
		if v != nil {
			return *v, true
		}
	}
	return message.Value{}, false
}

// fold combines the values that are set as integers; a single value stays as it is.
func fold(join func(a, b int64) int64, all ...*message.Value) (out message.Value, any bool) {
	for _, v := range all {
		switch {
		case v == nil:
		case !any:
			out, any = *v, true
		default:
			out = message.Int64(join(integerOf(out), integerOf(*v)))
		}
	}
	return out, any
}

// integerOf reads a value that was checked to be an integer.
func integerOf(v message.Value) int64 {
	if n, ok := v.AsInt(); ok {
		return n
	}
	return math.MaxInt64
}

func lowerOf(a, b int64) int64  { return min(a, b) }
func higherOf(a, b int64) int64 { return max(a, b) }

// finiteOf returns the lower of two limits, where a negative one means no limit.
func finiteOf(a, b int64) int64 {
	if a < 0 || b < 0 {
		return max(a, b)
	}
	return min(a, b)
}

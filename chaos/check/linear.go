package check

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/quorate/quorate/chaos/history"
)

// linearTime bounds one search: that of a name, or of a window of a queue. What is not decided
// within it is unknown. The search may take exponential time where the outcomes of many writes are
// unknown. It bounds no sum of searches: a long history is many short ones.
const linearTime = 20 * time.Second

// registerModel returns the model of a register: its state is its value.
func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			op, _ := input.(*history.Operation)
			if op.Write {
				return true, op.Value
			}
			return state == op.Value, state
		},
	}
}

// registers: declares, deletes and looks at one name have some order, in which each took effect
// between its call and its return, and which explains all that was answered.
func registers(l *ledger) Guarantee {
	g := Guarantee{Name: "declares and deletes are linearizable", Rule: "G10"}
	type name struct {
		operations []porcupine.Operation
		first      *history.Event
	}
	names := map[string]*name{}
	var order []string
	for i := range l.events {
		e := &l.events[i]
		if e.Kind != history.Register || e.Op == nil || e.Op.Uncertain && !e.Op.Write { // nothing was read
			continue
		}
		n := names[e.Op.Name]
		if n == nil {
			n = &name{first: e}
			names[e.Op.Name], order = n, append(order, e.Op.Name)
		}
		op := porcupine.Operation{ClientId: e.Op.Client, Input: e.Op, Call: int64(e.Op.Call), Return: int64(e.Op.Return)}
		if e.Op.Uncertain {
			op.Return = math.MaxInt64 // it may take effect at any time, or never, which is the same as last
		}
		n.operations = append(n.operations, op)
	}
	for _, at := range order {
		n := names[at]
		switch result, stuck := linearizable(registerModel(), n.operations, linearTime); result {
		case porcupine.Ok:
			g.Checked += len(n.operations)
		case porcupine.Illegal:
			g.Checked += len(n.operations)
			why, when := "no order explains its operations", n.first.At
			if op, is := stuck.Input.(*history.Operation); is {
				why, when = fmt.Sprintf("no order explains the %s, and what was done before", op), op.Return
			}
			g.Broken = append(g.Broken, Finding{At: when, Queue: at, Why: why})
		case porcupine.Unknown:
			g.Missing = fmt.Sprintf("the %d operations on %s were not decided within %v", len(n.operations), at, linearTime)
		}
	}
	return g
}

// linearizable looks for an order of operations that explains all of them. If there is none, it returns the operation
// that follows the longest order that was found, if known.
func linearizable(m porcupine.Model, operations []porcupine.Operation, limit time.Duration) (porcupine.CheckResult, porcupine.Operation) {
	if limit <= 0 {
		return porcupine.Unknown, porcupine.Operation{}
	}
	result, info := porcupine.CheckOperationsVerbose(m, operations, limit)
	if result != porcupine.Illegal {
		return result, porcupine.Operation{}
	}
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, one := range partition {
			if len(one) > len(longest) {
				longest = one
			}
		}
	}
	in := map[any]bool{}
	for _, op := range longest {
		in[op.Input] = true
	}
	var stuck porcupine.Operation
	for _, op := range operations {
		if !in[op.Input] && (stuck.Input == nil || op.Return < stuck.Return) {
			stuck = op
		}
	}
	return result, stuck
}

package argument

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Resolve checks the arguments of a declare against every row of the table and returns the settings
// in force. The queue type is the one that the arguments name, else the default, which classic
// selects. It returns all faults at once, joined, each an *Error. Names that the table does not
// know have no effect.
func Resolve(args message.Table, classic bool) (Settings, error) {
	if len(args) == 0 {
		return Default(classic), nil
	}
	return resolve(args, classic)
}

// resolve reads all arguments and gathers every fault before it fails. The type is settled first,
// because defaults depend on it.
func resolve(args message.Table, classic bool) (Settings, error) {
	a := arguments{table: args}
	if v, named := args.Get(QueueType); named {
		word, _ := v.AsString()
		// A declare that asks for a stream is refused for that; its other arguments are no further
		// faults.
		classic = word == "classic" || word == "stream" || classic && word != "quorum"
	}
	s := Default(classic)
	for i := range rows {
		if r := &rows[i]; r.prefix() {
			a.checkAll(r, &s)
		} else if v, ok := args.Get(r.Name); ok {
			a.check(r, r.Name, v, &s)
		}
	}
	a.checkTogether(&s)
	if len(a.faults) > 0 {
		return Settings{}, errors.Join(a.faults...)
	}
	s.finishRetry()
	_, strategySet := args.Get(dlStrategy)
	s.warn(strategySet)
	return s, nil
}

// arguments reads a table and gathers the faults.
type arguments struct {
	table  message.Table
	faults []error
}

func (a *arguments) fault(e *Error) {
	a.faults = append(a.faults, e)
}

// check reads one argument into the settings.
func (a *arguments) check(r *Row, name string, v message.Value, s *Settings) {
	read, is, fault := r.Values.read(v)
	switch {
	case fault != "":
		a.fault(&Error{Arg: name, Value: is, Reason: fault})
	case r.ClassicOnly && !s.Classic:
		a.fault(&Error{Arg: name, Value: v.String(), Reason: "not for quorum queues; leave the argument out" + r.Remedy, OtherType: true})
	case r.sets != nil:
		r.sets(s, read)
	}
}

// checkAll checks all arguments that begin with the name of the row.
func (a *arguments) checkAll(r *Row, s *Settings) {
	for _, f := range a.table {
		if strings.HasPrefix(f.Name, r.Name) {
			a.check(r, f.Name, f.Value, s)
		}
	}
}

// checkTogether checks arguments that depend on one another.
func (a *arguments) checkTogether(s *Settings) {
	if _, hasExchange := a.table.Get(dlExchange); s.HasDeadLetterRoutingKey && !hasExchange {
		a.fault(&Error{Arg: dlKey, Value: strconv.Quote(s.DeadLetterRoutingKey), Reason: "needs the argument " + dlExchange + " as well"})
	}
	r := &s.Retry
	if r.MinMs > 0 && r.MaxMs > 0 && r.MaxMs < r.MinMs {
		a.fault(&Error{Arg: retryMax, Value: strconv.FormatInt(r.MaxMs, 10), Reason: fmt.Sprintf("below %s = %d", retryMin, r.MinMs)})
	}
	if r.Type == quorumq.RetryDisabled || r.Steps > 0 {
		return
	}
	kind, _ := a.table.Get(retryType)
	word, _ := kind.AsString()
	if _, hasMin := a.table.Get(retryMin); !hasMin {
		a.fault(&Error{Arg: retryType, Value: strconv.Quote(word), Reason: "needs the argument " + retryMin + " as well"})
	}
	if _, hasMax := a.table.Get(retryMax); !hasMax && r.Type != quorumq.RetryReturned { // D-8
		s.warnf("%s %q without %s: every wait is %s; set a maximum for waits to grow", retryType, word, retryMax, retryMin)
	}
}

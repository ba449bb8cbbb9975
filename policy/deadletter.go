package policy

import (
	"fmt"
	"math"
	"strconv"

	"github.com/quorate/quorate/catalog"
)

const (
	argBacklogLimit = "x-dead-letter-backlog-limit"
	argOnSwitch     = "x-dead-letter-on-switch"
	argCycle        = "x-dead-letter-cycle"
	argMaxHops      = "x-dead-letter-max-hops"
)

// OnSwitch is what becomes of the backlog when at-least-once ends for a queue (DL-27).
type OnSwitch string

// The ways; "" where nobody says.
const (
	SwitchDrain OnSwitch = "drain"
	SwitchDrop  OnSwitch = "drop"
)

// onDeleteDiscard is the other value of x-on-delete.
const onDeleteDiscard = "discard"

// Values of x-dead-letter-cycle (DL-43).
const (
	cycleDetect = "detect"
	cycleAllow  = "allow"
)

func (a *arguments) deadLettering(e *Effective) {
	e.DeadLetterExchange, e.HasDeadLetterExchange = a.text(argDLX)
	if n := len(e.DeadLetterExchange); n > catalog.MaxNameBytes {
		a.fault(argDLX, strconv.Itoa(n)+" bytes", fmt.Sprintf("the limit is %d bytes", catalog.MaxNameBytes))
	}
	e.DeadLetterRoutingKey, e.HasDeadLetterRoutingKey = a.text(argDLK)
	if n := len(e.DeadLetterRoutingKey); n > maxDLKBytes {
		a.fault(argDLK, strconv.Itoa(n)+" bytes", fmt.Sprintf("the limit is %d bytes", maxDLKBytes))
	}
	if _, hasDLX := a.table.Get(argDLX); e.HasDeadLetterRoutingKey && !hasDLX {
		a.fault(argDLK, strconv.Quote(e.DeadLetterRoutingKey), "needs the argument "+argDLX+" as well")
	}
	if s, ok := a.oneOf(argStrategy, string(AtMostOnce), string(AtLeastOnce)); ok {
		e.DeadLetterStrategy = Strategy(s)
	}
	if n, ok := a.integer(argBacklogLimit, 1, math.MaxInt64); ok {
		e.DeadLetterBacklogLimit = n
	}
	if s, ok := a.oneOf(argOnSwitch, string(SwitchDrain), string(SwitchDrop)); ok {
		e.DeadLetterOnSwitch = OnSwitch(s)
	}
	if s, ok := a.oneOf(argCycle, cycleDetect, cycleAllow); ok {
		e.DeadLetterCycles = s == cycleAllow
	}
	if s, ok := a.oneOf(catalog.ArgOnDelete, onDeleteDiscard, catalog.OnDeleteDeadLetter); ok {
		e.DeadLetterOnDelete = s == catalog.OnDeleteDeadLetter
	}
	if n, ok := a.integer(argMaxHops, 1, math.MaxInt64); ok {
		e.DeadLetterMaxHops = n
	}
}

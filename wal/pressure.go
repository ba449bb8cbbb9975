package wal

import "fmt"

// Pressure says how near the disk is to being full.
type Pressure uint8

// Degrees of pressure, see Config.
const (
	PressureNone  Pressure = iota
	PressureLow            // publishes are to be refused
	PressureFloor          // leaders are to go and the node to stop
)

// String returns the name for logs and metrics.
func (p Pressure) String() string {
	switch p {
	case PressureNone:
		return "none"
	case PressureLow:
		return "low"
	case PressureFloor:
		return "floor"
	default:
		return fmt.Sprintf("pressure %d", uint8(p))
	}
}

// pressureOf judges free space. What was refused is allowed again a quarter above the
// limit, so that it does not flutter.
func pressureOf(free uint64, was Pressure, low, floor int64) Pressure {
	below := func(limit int64, at Pressure) bool {
		if limit <= 0 {
			return false
		}
		if was >= at {
			limit += limit / 4
		}
		return free < uint64(limit)
	}
	switch {
	case below(floor, PressureFloor):
		return PressureFloor
	case below(low, PressureLow):
		return PressureLow
	default:
		return PressureNone
	}
}

// Pressure returns how near the disk is to being full.
func (l *Log) Pressure() Pressure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pressure
}

// checkSpace asks for the free space. That it cannot be told is not the log's failure.
func (l *Log) checkSpace() {
	free, err := l.dir.Free()
	if err != nil {
		l.c.Logger.Warn("free space of the log's disk is unknown", "error", err)
		return
	}
	l.mu.Lock()
	was := l.pressure
	l.free = free
	l.pressure = pressureOf(free, was, l.c.LowBytes, l.c.FloorBytes)
	now := l.pressure
	l.mu.Unlock()
	if now == was {
		return
	}
	l.c.Logger.Warn("free space of the log's disk has crossed a limit", "pressure", now.String(), "was", was.String(), "free_bytes", free)
	if l.c.OnPressure != nil {
		l.c.OnPressure(now)
	}
}

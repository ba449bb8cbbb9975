package wal

import "fmt"

// Pressure says how near the disk is to being full.
type Pressure uint8

// Degrees of pressure, see Config.
const (
	PressureNone  Pressure = iota
	PressureLow            // publishes are to be refused
	PressureFloor          // leaders are to go and members to stop
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

// Space is what is left of the log's file system, as it was last asked, in bytes.
type Space struct {
	Pressure Pressure
	Free     uint64
	Low      int64 // the limits in force; none if not positive
	Floor    int64
}

// judge takes news of free space. What was refused is allowed again a quarter above the
// limit, so that it does not flutter.
func (s *Space) judge(free uint64) {
	was := s.Pressure
	below := func(limit int64, at Pressure) bool {
		if limit <= 0 {
			return false
		}
		if was >= at {
			limit += limit / 4
		}
		return free < uint64(limit)
	}
	s.Free, s.Pressure = free, PressureNone
	switch {
	case below(s.Floor, PressureFloor):
		s.Pressure = PressureFloor
	case below(s.Low, PressureLow):
		s.Pressure = PressureLow
	}
}

// limits returns the limits of free space on a file system of a size.
func (c *Config) limits(total uint64) (low, floor int64) {
	low, floor = c.LowBytes, c.FloorBytes
	share := int64(min(DefaultLowBytes, total/defaultLowShare))
	if low == 0 {
		low = share
	}
	if floor == 0 {
		floor = min(DefaultFloorBytes, share/4)
	}
	if low > 0 {
		floor = min(floor, low)
	}
	return low, floor
}

// Space returns what is left of the disk, without asking it.
func (l *Log) Space() Space {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.room
}

// checkSpace asks for the free space. That it cannot be told is not the log's failure.
func (l *Log) checkSpace() {
	free, total, err := l.dir.Space()
	if err != nil {
		l.c.Logger.Warn("free space of the log's disk is unknown", "error", err)
		return
	}
	l.mu.Lock()
	was := l.room.Pressure
	l.room.Low, l.room.Floor = l.c.limits(total)
	l.room.judge(free)
	now := l.room
	l.mu.Unlock()
	if now.Pressure == was {
		return
	}
	l.c.Logger.Warn("free space of the log's disk has crossed a limit", "pressure", now.Pressure.String(), "was", was.String(),
		"free_bytes", free, "low_bytes", now.Low, "floor_bytes", now.Floor)
	if l.c.OnPressure != nil {
		l.c.OnPressure(now.Pressure)
	}
}

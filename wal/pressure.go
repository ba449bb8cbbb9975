package wal

import (
	"fmt"
	"math"
)

// Pressure describes how full the disk is.
type Pressure uint8

// The levels of pressure, see Config.
const (
	PressureNone  Pressure = iota
	PressureLow            // the owner should refuse publishes
	PressureFloor          // the reserve is used up too: leaders should move and members stop
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

// Space has the space of the log's file system at the last check, in bytes.
type Space struct {
	Pressure Pressure
	Free     uint64
	Low      int64 // the limits in force; none if not positive
	Floor    int64
	Reserve  int64  // bytes reserved for work that frees space, not part of Free
	Missing  int64  // bytes missing from the reserve
	Total    uint64 // bytes of the file system
}

// judge derives the pressure from the free space. What was refused is allowed again a quarter above the limit, so
// that the pressure does not flutter.
func (s *Space) judge(free uint64) {
	was := s.Pressure
	below := func(free uint64, limit int64, at Pressure) bool {
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
	case below(free, s.Floor, PressureFloor):
		s.Pressure = PressureFloor
	case below(free-min(free, uint64(s.Missing)), s.Low, PressureLow):
		s.Pressure = PressureLow
	}
}

// limits returns the limits of free space on a file system of a size.
func (c *Config) limits(total uint64) (low, floor int64) {
	low, floor = c.LowBytes, c.FloorBytes
	share := int64(min(DefaultLowBytes, max(total/defaultLowShare, min(minLowBytes, total/minLowShare))))
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

// Space returns the last known free space, without a system call.
func (l *Log) Space() Space {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.room
}

// checkSpace asks for the free space before coming bytes are written. If the system cannot report it, the log does
// not fail.
func (l *Log) checkSpace(coming int64) {
	l.looking.Lock()
	defer l.looking.Unlock()
	free, total, err := l.dir.Space()
	if err != nil {
		l.c.Logger.Warn("free space of the log's disk is unknown", "error", err)
		return
	}
	low, floor := l.c.limits(total)
	free = l.keepReserve(free, total, low, floor, coming)
	l.mu.Lock()
	was := l.room.Pressure
	l.room.Low, l.room.Floor, l.room.Reserve, l.room.Missing, l.room.Total = low, floor, l.reserve.held, 0, total
	if !l.reserve.refused {
		l.room.Missing = max(0, reserveFor(floor, total)-l.reserve.held)
	}
	l.room.judge(free)
	l.unseen = 0
	now := l.room
	l.mu.Unlock()
	if now.Pressure == was {
		return
	}
	l.wake()
	l.c.Logger.Warn("free space of the log's disk has crossed a limit", "pressure", now.Pressure.String(), "was", was.String(),
		"free_bytes", free, "low_bytes", now.Low, "floor_bytes", now.Floor, "reserve_bytes", now.Reserve)
	if l.c.OnPressure != nil {
		l.c.OnPressure(now.Pressure)
	}
}

// Space is asked for before a write that may have come near a limit: when what was written
// since the last time exceeds a part of the way to it.
const (
	unseenShare = 4
	minUnseen   = 128 << 10
)

// nears reports whether the free space must be checked before so many bytes are written. The caller holds mu.
func (l *Log) nears(bytes int64) bool {
	l.unseen += bytes
	limit := int64(0)
	switch l.room.Pressure {
	case PressureNone:
		limit = max(0, l.room.Low) + l.room.Missing
	case PressureLow:
		limit = max(0, l.room.Floor)
	case PressureFloor:
	}
	left := int64(min(l.room.Free, math.MaxInt64)) - limit
	return l.unseen >= max(minUnseen, left/unseenShare)
}

// scarce reports whether the log is to give back what it can. The caller holds mu.
func (l *Log) scarce() bool { return l.room.Pressure != PressureNone }

// yields are the limits of compaction.
type yields struct {
	any, all bool  // segments that are half full go, or even those that are fuller, however large the log is
	most     int   // segments at a time
	room     int64 // live bytes of a segment: while they are carried they are there twice
}

// yields returns what is asked of compaction. While space is scarce all that pays is carried,
// a segment at a time, and only where there is room for it. The caller holds mu.
func (l *Log) yields() yields {
	if !l.scarce() {
		return yields{most: victimsAtATime, room: math.MaxInt64}
	}
	return yields{
		any: true, all: l.room.Pressure == PressureFloor, most: 1,
		room: int64(min(l.room.Free, math.MaxInt64)) - max(0, l.room.Floor)/2,
	}
}

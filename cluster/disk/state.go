package disk

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/wal"
)

var (
	// ErrNoSpace means that too many of the queue's members are on nodes whose disk is nearly full; the command has
	// not taken effect and will not. Commands that free space still work.
	ErrNoSpace = errors.New("cluster: short of disk space")
	// ErrHangs means that a write to this node's disk does not return.
	ErrHangs = errors.New("cluster: the disk hangs")
)

// State is the state of the disk with a node's data directory.
type State struct {
	Path       string
	Pressure   wal.Pressure
	Free       uint64        // bytes
	Size       uint64        // bytes of the file system; 0: not known
	Low, Floor uint64        // limits of Free; 0: none
	Hangs      time.Duration // for how long a write has been under way, if that is too long; 0: it is not
	Stopped    int           // members that wait for room
	Refused    uint64        // publishes that this node refused for lack of room, since its start
	Moved      uint64        // leaders that it handed over for lack of room, since its start
}

// describe reports which limit is passed and by how much.
func (s *State) describe(n id.NodeID) string {
	key, limit := "storage.disk_low", s.Low
	if s.Pressure == wal.PressureFloor {
		key, limit = "storage.disk_floor", s.Floor
	}
	return fmt.Sprintf("node %q has %d bytes free on %s, and %s is %d; it recovers at %d", n, s.Free, s.Path, key, limit, limit+limit/4)
}

// Wire returns the state as nodes send it to one another.
func (s *State) Wire() *nodev1.DiskState {
	return &nodev1.DiskState{
		Pressure: nodev1.DiskState_Pressure(s.Pressure) + nodev1.DiskState_PRESSURE_NONE, Path: s.Path,
		FreeBytes: s.Free, LowBytes: s.Low, FloorBytes: s.Floor, HangsMs: uint64(s.Hangs.Milliseconds()),
		Stopped: uint32(s.Stopped), Refused: s.Refused, Moved: s.Moved, SizeBytes: s.Size,
	}
}

// fromWire counts pressures that this build does not know as none.
func fromWire(w *nodev1.DiskState) State {
	s := State{
		Path: w.GetPath(), Free: w.GetFreeBytes(), Low: w.GetLowBytes(), Floor: w.GetFloorBytes(),
		Hangs: time.Duration(w.GetHangsMs()) * time.Millisecond, Stopped: int(w.GetStopped()),
		Refused: w.GetRefused(), Moved: w.GetMoved(), Size: w.GetSizeBytes(),
	}
	switch w.GetPressure() {
	case nodev1.DiskState_PRESSURE_LOW:
		s.Pressure = wal.PressureLow
	case nodev1.DiskState_PRESSURE_FLOOR:
		s.Pressure = wal.PressureFloor
	case nodev1.DiskState_PRESSURE_NONE, nodev1.DiskState_PRESSURE_UNSPECIFIED:
	}
	return s
}

package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/wal"
)

// tell tells peers how this node's disk fares, until ctx ends.
func (d *disks) tell(ctx context.Context) {
	again := time.NewTimer(diskTellEvery)
	defer again.Stop()
	for {
		select {
		case <-d.tells:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if d.tellAll(ctx) {
			again.Reset(diskTellEvery)
		} else {
			again.Reset(diskTellAgain)
		}
	}
}

// tellAll tells every peer that has a link, and waits for their answers; false: not all of
// them have answered.
func (d *disks) tellAll(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, diskTellTimeout)
	defer cancel()
	d.mu.Lock()
	d.number++
	number := d.number
	d.mu.Unlock()
	told := &nodev1.TellDiskRequest{Number: number, Disk: d.of(d.c.cfg.Node).wire()}
	var asked sync.WaitGroup
	var missed atomic.Bool
	for _, n := range d.c.alive() {
		if _, up := d.c.mux.Connected(n); !up {
			continue
		}
		peer, err := d.c.mux.Client(n)
		if err != nil {
			continue
		}
		asked.Go(func() {
			if _, err := peer.TellDisk(ctx, told); err != nil {
				missed.Store(true)
				d.c.log.Debug("peer was not told of the disk, trying again later", "peer", string(n), "error", err)
			}
		})
	}
	asked.Wait()
	return !missed.Load()
}

// hear takes what a peer tells, unless something newer is known.
func (d *disks) hear(n id.NodeID, epoch id.Epoch, r *nodev1.TellDiskRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.peers[n]
	if was.epoch > epoch || was.epoch == epoch && was.number >= r.GetNumber() {
		return
	}
	now := toldDisk{Disk: diskOf(r.GetDisk()), epoch: epoch, number: r.GetNumber()}
	d.peers[n] = now
	d.count()
	if now.Pressure != was.Pressure {
		d.c.log.Info("a peer's disk has crossed a limit", "peer", string(n), "pressure", now.Pressure.String(), "was", was.Pressure.String(), "free_bytes", now.Free)
	}
}

func (disk *Disk) wire() *nodev1.DiskState {
	return &nodev1.DiskState{
		Pressure: nodev1.DiskState_Pressure(disk.Pressure) + nodev1.DiskState_PRESSURE_NONE, Path: disk.Path,
		FreeBytes: disk.Free, LowBytes: disk.Low, FloorBytes: disk.Floor, HangsMs: uint64(disk.Hangs.Milliseconds()),
		Stopped: uint32(disk.Stopped), Refused: disk.Refused, Moved: disk.Moved,
	}
}

func diskOf(w *nodev1.DiskState) Disk {
	disk := Disk{
		Path: w.GetPath(), Free: w.GetFreeBytes(), Low: w.GetLowBytes(), Floor: w.GetFloorBytes(),
		Hangs: time.Duration(w.GetHangsMs()) * time.Millisecond, Stopped: int(w.GetStopped()),
		Refused: w.GetRefused(), Moved: w.GetMoved(),
	}
	switch w.GetPressure() {
	case nodev1.DiskState_PRESSURE_LOW:
		disk.Pressure = wal.PressureLow
	case nodev1.DiskState_PRESSURE_FLOOR:
		disk.Pressure = wal.PressureFloor
	case nodev1.DiskState_PRESSURE_NONE, nodev1.DiskState_PRESSURE_UNSPECIFIED:
	}
	return disk
}

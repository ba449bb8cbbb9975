package vfs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync"
	"syscall"
)

// sectorBytes is what a disk writes as a whole or not at all, most of the time.
const sectorBytes = 512

// ErrPowerOff is what every operation of a Mem returns after the power went.
var ErrPowerOff = errors.New("vfs: the power is off")

// Mem is a directory in memory whose faults are chosen by a test. It keeps apart what a
// process sees and what a power cut would leave.
type Mem struct {
	mu       sync.Mutex
	names    map[string]*memData
	durable  map[string]*memData
	renames  []func(map[string]*memData) // changes of names since the last SyncDir, in order
	locked   bool
	plans    []*plan
	off      bool
	capacity uint64
	counts   map[Op]int
}

// memData is a file's content.
type memData struct {
	data   []byte
	synced []byte           // survives
	dirty  map[int]struct{} // sectors written since the last Sync
	shrunk bool             // truncated since
	spoken uint64           // bytes that Allocate has taken; they are not in data
}

// NewMem returns an empty directory of unlimited size.
func NewMem() *Mem {
	return &Mem{
		names: map[string]*memData{}, durable: map[string]*memData{}, counts: map[Op]int{},
		capacity: math.MaxInt64,
	}
}

// Path implements Dir.
func (m *Mem) Path() string { return "memory" }

// SetCapacity limits the sum of all files; writes beyond it fail with ENOSPC.
func (m *Mem) SetCapacity(bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// used counts space that was allocated and not written too; m.mu is held.
func (m *Mem) used() uint64 {
	n := uint64(0)
	for _, d := range m.names {
		n += uint64(len(d.data)) + d.spoken
	}
	return n
}

// Used returns the sum of the sizes of all files, in bytes.
func (m *Mem) Used() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used()
}

// Space implements Dir.
func (m *Mem) Space() (free, total uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.used()
	return m.capacity - min(used, m.capacity), m.capacity, nil
}

// Create implements Dir.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(OpName); err != nil {
		return nil, err
	}
	if m.names[name] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	d := &memData{dirty: map[int]struct{}{}}
	m.rename(func(names map[string]*memData) { names[name] = d })
	return &memFile{m: m, d: d, name: name}, nil
}

// rename changes the names now, and the durable ones with the next SyncDir.
func (m *Mem) rename(f func(map[string]*memData)) {
	f(m.names)
	m.renames = append(m.renames, f)
}

// Open implements Dir.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off {
		return nil, ErrPowerOff
	}
	d := m.names[name]
	if d == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memFile{m: m, d: d, name: name}, nil
}

// Rename implements Dir.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(OpName); err != nil {
		return err
	}
	if m.names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	m.rename(func(names map[string]*memData) {
		names[to] = names[from]
		delete(names, from)
	})
	return nil
}

// Remove implements Dir.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(OpName); err != nil {
		return err
	}
	if m.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	m.rename(func(names map[string]*memData) { delete(names, name) })
	return nil
}

// List implements Dir.
func (m *Mem) List() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off {
		return nil, ErrPowerOff
	}
	var names []string
	for name := range m.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// SyncDir implements Dir.
func (m *Mem) SyncDir() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(OpSync); err != nil {
		return err
	}
	for _, f := range m.renames {
		f(m.durable)
	}
	m.renames = nil
	return nil
}

// Lock implements Dir.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off {
		return nil, ErrPowerOff
	}
	if m.locked {
		return nil, fmt.Errorf("vfs: %s is locked by another process", name)
	}
	m.locked = true
	return memLock{m}, nil
}

// memLock unlocks the directory by Close.
type memLock struct{ m *Mem }

func (l memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.m.locked = false
	return nil
}

// memFile is an open file of a Mem.
type memFile struct {
	m    *Mem
	d    *memData
	name string
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	failed := f.m.read()
	if failed != nil {
		p = p[:len(p)/2] // as if a sector in the middle were bad
	}
	if off >= int64(len(f.d.data)) {
		return 0, cmp.Or(failed, io.EOF)
	}
	n := copy(p, f.d.data[off:])
	if n < len(p) {
		return n, cmp.Or(failed, io.EOF)
	}
	return n, failed
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step(OpWrite); err != nil {
		f.d.write(p[:len(p)/2], off) // the disk may have got a part of it
		return 0, err
	}
	if end := off + int64(len(p)); end > int64(len(f.d.data)) {
		if f.m.used()+uint64(end)-uint64(len(f.d.data)) > f.m.capacity {
			return 0, &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
		}
	}
	f.d.write(p, off)
	return len(p), nil
}

// WritePartsAt implements File. It is one write.
func (f *memFile) WritePartsAt(parts [][]byte, off int64) error {
	_, err := f.WriteAt(bytes.Join(parts, nil), off)
	return err
}

// write marks the sectors that a crash may lose.
func (d *memData) write(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	end := int(off) + len(p)
	if end > len(d.data) {
		d.data = append(d.data, make([]byte, end-len(d.data))...)
	}
	copy(d.data[off:], p)
	for s := int(off) / sectorBytes; s <= (end-1)/sectorBytes; s++ {
		d.dirty[s] = struct{}{}
	}
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step(OpSync); err != nil {
		return err
	}
	d := f.d
	if d.shrunk || len(d.data) < len(d.synced) {
		d.synced = slices.Clone(d.data)
	} else {
		d.synced = append(d.synced, make([]byte, len(d.data)-len(d.synced))...)
		for s := range d.dirty {
			lo := s * sectorBytes
			copy(d.synced[lo:], d.data[lo:min(lo+sectorBytes, len(d.data))])
		}
	}
	clear(d.dirty)
	d.shrunk = false
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step(OpWrite); err != nil {
		return err
	}
	d := f.d
	if size > int64(len(d.data)) {
		d.data = append(d.data, make([]byte, int(size)-len(d.data))...)
		return nil
	}
	d.data = slices.Clone(d.data[:size])
	d.shrunk = true
	return nil
}

// Allocate implements File. The bytes count as used and take no memory; they are as good as
// durable at once.
func (f *memFile) Allocate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.m.step(OpWrite); err != nil {
		return err
	}
	if f.m.used()+uint64(size) > f.m.capacity {
		return &fs.PathError{Op: "fallocate", Path: f.name, Err: syscall.ENOSPC}
	}
	f.d.spoken = uint64(size)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(uint64(len(f.d.data)) + f.d.spoken), nil
}

func (f *memFile) Close() error { return nil }

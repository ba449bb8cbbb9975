package vfs

import (
	"math/rand/v2"
	"slices"
)

// Op is a kind of operation at which a Mem can fail.
type Op uint8

// Kinds of operations.
const (
	OpAny   Op = iota
	OpWrite    // WriteAt and Truncate
	OpSync     // Sync and SyncDir
	OpName     // Create, Rename and Remove
	OpRead     // ReadAt
)

// plan is what happens at the n-th operation of a kind.
type plan struct {
	op    Op
	count int // operations until it happens
	err   error
	power bool
	hang  chan struct{}
	hung  chan struct{}
}

// FailAt lets the n-th operation of the kind from now on fail with err, and none after
// it. A failed write leaves half of its bytes, a failed read brings half of them.
func (m *Mem) FailAt(op Op, n int, err error) { m.plan(&plan{op: op, count: n, err: err}) }

// PowerOffAt cuts the power at the n-th operation of the kind from now on: this one and all
// that follow return ErrPowerOff. See Crash.
func (m *Mem) PowerOffAt(op Op, n int) { m.plan(&plan{op: op, count: n, power: true}) }

// HangAt lets the n-th operation of the kind from now on wait until release is called;
// hung is closed when it waits. All operations that follow wait behind it.
func (m *Mem) HangAt(op Op, n int) (hung <-chan struct{}, release func()) {
	p := &plan{op: op, count: n, hang: make(chan struct{}), hung: make(chan struct{})}
	m.plan(p)
	return p.hung, func() { close(p.hang) }
}

// plan adds a fault that is to happen.
func (m *Mem) plan(p *plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plans = append(m.plans, p)
}

// Count returns how many operations of the kind there were. OpAny counts all but reads.
func (m *Mem) Count(op Op) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[op]
}

// step counts an operation that changes something and reports whether it fails.
func (m *Mem) step(op Op) error {
	if m.off {
		return ErrPowerOff
	}
	m.counts[op]++
	m.counts[OpAny]++
	return m.meet(op, true)
}

// read is called for each read, with m.mu held, and returns the fault that was planned for it.
func (m *Mem) read() error {
	if m.off {
		return ErrPowerOff
	}
	m.counts[OpRead]++
	return m.meet(OpRead, false)
}

// meet carries out the plans that are due.
func (m *Mem) meet(op Op, change bool) error {
	var err error
	m.plans = slices.DeleteFunc(m.plans, func(p *plan) bool {
		if p.op != op && (p.op != OpAny || !change) {
			return false
		}
		if p.count--; p.count > 0 {
			return false
		}
		switch {
		case p.power:
			m.off = true
			err = ErrPowerOff
		case p.hang != nil:
			close(p.hung)
			<-p.hang // with the mutex: the whole disk hangs
		default:
			err = p.err
		}
		return true
	})
	return err
}

// Loss is what a power cut does to writes that were not synced.
type Loss uint8

// Kinds of loss.
const (
	LoseAll    Loss = iota // nothing that was not synced is there
	LoseNone               // everything is there
	LoseSome               // each sector by the toss of a coin: writes overtake one another
	LoseSuffix             // sectors in order up to one that is torn in its middle
	Losses                 // how many kinds there are
)

// Crash returns the directory as a machine finds it after a power cut now. The random
// numbers decide what LoseSome and LoseSuffix keep. The old directory is off.
func (m *Mem) Crash(loss Loss, random *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = true
	keep := len(m.renames) // a journal keeps the order of names
	switch loss {
	case LoseAll:
		keep = 0
	case LoseSome, LoseSuffix:
		keep = random.IntN(len(m.renames) + 1)
	case LoseNone, Losses:
	}
	for _, f := range m.renames[:keep] {
		f(m.durable)
	}
	next := NewMem()
	names := make([]string, 0, len(m.durable))
	for name := range m.durable {
		names = append(names, name)
	}
	slices.Sort(names) // so that a seed gives the same result
	for _, name := range names {
		left := m.durable[name].crash(loss, random)
		d := &memData{data: left, synced: slices.Clone(left), dirty: map[int]struct{}{}}
		next.names[name], next.durable[name] = d, d
	}
	return next
}

// crash returns what is on the disk after the power was lost: synced bytes, and by loss some of the others.
func (d *memData) crash(loss Loss, random *rand.Rand) []byte {
	if loss == LoseNone {
		return slices.Clone(d.data)
	}
	left := slices.Clone(d.synced)
	if loss == LoseAll {
		return left
	}
	if d.shrunk && len(d.data) < len(left) && random.IntN(2) == 0 {
		left = left[:len(d.data)]
	}
	sectors := make([]int, 0, len(d.dirty))
	for s := range d.dirty {
		sectors = append(sectors, s)
	}
	slices.Sort(sectors)
	until := random.IntN(len(sectors) + 1)
	for i, s := range sectors {
		lo, hi := s*sectorBytes, min((s+1)*sectorBytes, len(d.data))
		if lo >= hi || loss == LoseSome && random.IntN(2) == 0 || loss == LoseSuffix && i > until {
			continue
		}
		if loss == LoseSuffix && i == until {
			hi = lo + random.IntN(hi-lo)
		}
		if hi > len(left) {
			left = append(left, make([]byte, hi-len(left))...)
		}
		copy(left[lo:hi], d.data[lo:hi])
	}
	return left
}

// Clone returns a directory of its own with the same files, all of them durable.
func (m *Mem) Clone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := NewMem()
	for name, d := range m.names {
		d := &memData{data: slices.Clone(d.data), synced: slices.Clone(d.data), dirty: map[int]struct{}{}}
		next.names[name], next.durable[name] = d, d
	}
	return next
}

// Flip changes one bit of a stored file, as a rotten sector does.
func (m *Mem) Flip(name string, off int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.names[name]
	d.data[off] ^= 1
	if off < int64(len(d.synced)) {
		d.synced[off] ^= 1
	}
}

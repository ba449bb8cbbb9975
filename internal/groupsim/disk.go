package groupsim

import (
	"sync"
	"time"

	"github.com/quorate/quorate/wal/vfs"
)

// How long a sync takes at least, and at most on disks of three kinds.
const (
	leastSync = 200 * time.Microsecond
	quickDisk = time.Millisecond
	slowDisk  = 12 * time.Millisecond
	awfulDisk = 60 * time.Millisecond
)

// disk is a directory in memory whose syncs take effect late.
type disk struct {
	vfs.Dir
	pace *pace
}

// Create implements vfs.Dir.
func (d disk) Create(name string) (vfs.File, error) {
	f, err := d.Dir.Create(name)
	return file{f, d.pace}, err
}

// Open implements vfs.Dir.
func (d disk) Open(name string) (vfs.File, error) {
	f, err := d.Dir.Open(name)
	return file{f, d.pace}, err
}

// file is a file of a disk.
type file struct {
	vfs.File
	pace *pace
}

// Sync implements vfs.File.
func (f file) Sync() error {
	f.pace.wait()
	return f.File.Sync()
}

// pace is how long the syncs of a disk take. It is for concurrent use.
type pace struct {
	dice *dice

	mu   sync.Mutex // guards what follows
	most time.Duration
	hung chan struct{} // closed when syncs go on; nil: they do
}

// set changes how long syncs take at most.
func (p *pace) set(most time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = most
}

// hang makes syncs that begin from now on wait.
func (p *pace) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hung == nil {
		p.hung = make(chan struct{})
	}
}

// release lets syncs go on.
func (p *pace) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hung != nil {
		close(p.hung)
		p.hung = nil
	}
}

// wait takes the time of a sync.
func (p *pace) wait() {
	p.mu.Lock()
	hung, most := p.hung, p.most
	p.mu.Unlock()
	if hung != nil {
		<-hung
	}
	<-time.After(p.dice.between(leastSync, most))
}

package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// retainChunkBytes is how many bytes of a snapshot's bodies are stored at once.
const retainChunkBytes = 8 << 20

var errNothingNew = errors.New("this member has all that it stands for")

// snapshotSink takes a snapshot: from this member's machine by writeLocal, or from the
// leader by Write.
type snapshotSink struct {
	to   *snapshots
	head snapshotHead
	path string // temporary name of the file

	applied uint64         // what raft had handed to the machine when this was begun
	written bool           // the file is complete and durable
	closed  bool           // Close or Cancel was called
	err     error          // of the first Close
	pipe    *io.PipeWriter // feeds receive; nil until the first Write
	done    chan error     // receive's result
}

// Create implements raft.SnapshotStore.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("raftfsm: raft asks for a snapshot of version %d, known is %d", version, raft.SnapshotVersionMax)
	}
	if err := makeDir(s.dir); err != nil {
		return nil, fmt.Errorf("raftfsm: group %s: snapshot directory: %w", s.group, err)
	}
	<-s.up // raft may ask before Open has it
	s.mu.Lock()
	s.sinks++
	applied := s.applied
	name := fmt.Sprintf("%s-%d%s", snapshotID(index, term), s.sinks, temporarySuffix)
	s.mu.Unlock()
	return &snapshotSink{
		to: s,
		head: snapshotHead{
			group: s.group, index: index, term: term, configIndex: configurationIndex, configuration: configuration,
		},
		path: filepath.Join(s.dir, name), applied: applied(),
	}, nil
}

// ID implements raft.SnapshotSink.
func (k *snapshotSink) ID() string { return snapshotID(k.head.index, k.head.term) }

// writeLocal writes this member's snapshot: its bodies are in the storage already.
func (k *snapshotSink) writeLocal(machine []byte, live liveSet) error {
	k.head.machineBytes, k.head.liveBytes = int64(len(machine)), int64(len(live))
	err := writeSnapshot(k.path, k.head, bytes.NewReader(machine), func(uint32) (liveSet, error) { return live, nil })
	k.written = err == nil
	return err
}

// Write implements io.Writer: the bytes are the leader's stream.
func (k *snapshotSink) Write(p []byte) (int, error) {
	if k.closed || k.written {
		return 0, errors.New("raftfsm: snapshot is closed")
	}
	if k.pipe == nil {
		// What raft took before may have made it old since the gate has looked.
		if k.to.covered(k.head.index, k.head.term, k.applied) {
			return 0, fmt.Errorf("raftfsm: group %s: snapshot %s: %w", k.head.group, k.ID(), errNothingNew)
		}
		var r *io.PipeReader
		r, k.pipe = io.Pipe()
		k.done = make(chan error, 1)
		k.to.mu.Lock()
		k.to.busy++
		k.to.moving++
		k.to.mu.Unlock()
		go func() {
			err := k.receive(r)
			_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // it always can
			k.done <- err
		}()
	}
	return k.pipe.Write(p)
}

// receive takes the stream apart: bodies go to the storage, durable before the file that
// refers to them is.
func (k *snapshotSink) receive(r io.Reader) error {
	var err error
	if k.head.machineBytes, k.head.liveBytes, err = readStreamHead(r, k.head.group); err != nil {
		return err
	}
	err = writeSnapshot(k.path, k.head, r, func(sum uint32) (liveSet, error) { return k.receiveBodies(r, sum) })
	if err != nil {
		return err
	}
	if n, _ := io.CopyN(io.Discard, r, 1); n > 0 {
		return corruptf("bytes after the last body")
	}
	return nil
}

// receiveBodies reads the bodies that the machine refers to, and refuses a stream that lacks one.
func (k *snapshotSink) receiveBodies(r io.Reader, machineSum uint32) (liveSet, error) {
	var stored [sumBytes]byte
	if _, err := io.ReadFull(r, stored[:]); err != nil {
		return nil, corruptf("machine: %v", err)
	}
	if want := binary.LittleEndian.Uint32(stored[:]); machineSum != want {
		return nil, corruptf("machine has checksum %08x, sent was %08x", machineSum, want)
	}
	var b bytes.Buffer // grows with what arrives, whatever the head claims
	if _, err := io.CopyN(&b, r, k.head.liveBytes+sumBytes); err != nil {
		return nil, corruptf("live set: %v", err)
	}
	set, err := readSummed(&b, k.head.liveBytes)
	if err != nil {
		return nil, fmt.Errorf("live set: %w", err)
	}
	var batch []*raft.Log
	size := 0
	store := func() error {
		err := k.to.storage.StoreRetained(batch)
		batch, size = nil, 0
		return err
	}
	err = liveSet(set).each(func(index uint64, slots []uint32) error {
		l, bodies, err := readFrame(r, k.head.group, index)
		if err != nil {
			return err
		}
		for _, slot := range slots {
			if _, ok := bodies.body(slot); !ok {
				return corruptf("entry %d lacks body %d", index, slot)
			}
		}
		if has, err := k.has(l.Index); has || err != nil {
			return err
		}
		batch = append(batch, l)
		if size += len(l.Data); size >= retainChunkBytes {
			return store()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return set, store()
}

// has reports whether this member has an entry already, with all that its own state refers to.
// The leader sends only what its later state refers to. That must not replace the entry's bodies: this state stays if
// the snapshot never arrives whole. So all that a snapshot stores is above every state that this member had before,
// and can be distinguished from what it has.
//
// Raft calls nothing else while it installs a snapshot: applied stands still.
func (k *snapshotSink) has(index uint64) (bool, error) {
	if index > k.applied {
		return false, nil
	}
	err := k.to.storage.Entry(index, new(raft.Log))
	if errors.Is(err, raft.ErrLogNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Close implements raft.SnapshotSink: the snapshot is durable when it returns nil. It
// may be called again.
func (k *snapshotSink) Close() error {
	if k.closed {
		return k.err
	}
	k.closed = true
	if err := k.finish(); err != nil {
		k.err = fmt.Errorf("raftfsm: group %s: snapshot %s: %w", k.head.group, k.ID(), err)
		if errors.Is(err, errUnknownOutcome) {
			k.to.owner.fail(k.err)
		} else {
			k.err = errors.Join(k.err, k.discard())
		}
	}
	k.letGo()
	return k.err
}

// finish makes the snapshot durable and gives it its name, which is when it counts.
func (k *snapshotSink) finish() error {
	install := k.pipe != nil
	if install {
		if err := errors.Join(k.pipe.Close(), k.received()); err != nil {
			return err
		}
		k.written = true
	}
	if !k.written {
		return errors.New("nothing was written")
	}
	// What the log has of the state must not be less than what the snapshot has: bodies are
	// read from there.
	if err := k.to.sync(); err != nil {
		return err
	}
	return k.to.publish(k.path, install)
}

// Cancel implements raft.SnapshotSink: nothing of the snapshot is left.
func (k *snapshotSink) Cancel() error {
	if k.closed {
		return nil
	}
	k.closed = true
	if k.pipe != nil {
		k.pipe.CloseWithError(errors.New("cancelled"))
		_ = k.received() // whatever it says, nothing is kept
	}
	err := k.discard()
	k.letGo()
	return err
}

// received waits for the end of receive.
func (k *snapshotSink) received() error { return <-k.done }

// discard removes the file and the bodies that came with it.
func (k *snapshotSink) discard() error {
	err := os.Remove(k.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if k.pipe != nil {
		err = errors.Join(err, k.to.storage.DropRetained(k.applied))
	}
	if err != nil {
		return fmt.Errorf("raftfsm: snapshot %s: %w", k.ID(), err)
	}
	return nil
}

// letGo ends the hold that a snapshot from the leader has on the storage.
func (k *snapshotSink) letGo() {
	if k.pipe == nil {
		return
	}
	k.to.mu.Lock()
	k.to.putOff = true
	k.to.mu.Unlock()
	k.to.arrived()
}

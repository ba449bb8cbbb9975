package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// The stream by which a snapshot travels: the machine's bytes, the live set, then every
// live body, one sparse entry a frame.
const (
	streamMagic     = "QSNS"
	streamHeadBytes = 36
	frameHeadBytes  = 24
)

// appendStreamHead writes what a receiver has to know before the first byte of the state.
func appendStreamHead(b []byte, g id.GroupID, machineBytes, liveBytes int64) []byte {
	start := len(b)
	b = append(b, streamMagic...)
	b = append(b, snapshotVersion, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(g))
	b = binary.LittleEndian.AppendUint64(b, uint64(machineBytes))
	b = binary.LittleEndian.AppendUint64(b, uint64(liveBytes))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli()))
}

// readStreamHead refuses a stream of another group or version before anything of it is stored.
func readStreamHead(r io.Reader, g id.GroupID) (machineBytes, liveBytes int64, err error) {
	b := make([]byte, streamHeadBytes)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, 0, corruptf("stream: %v", err)
	}
	if string(b[:4]) != streamMagic || b[4] != snapshotVersion {
		return 0, 0, corruptf("stream begins with %q, not with a snapshot of version %d", b[:8], snapshotVersion)
	}
	if sum := crc32.Checksum(b[:32], castagnoli()); sum != binary.LittleEndian.Uint32(b[32:]) {
		return 0, 0, corruptf("head of stream has checksum %08x", sum)
	}
	if got := id.GroupID(binary.LittleEndian.Uint64(b[8:])); got != g {
		return 0, 0, fmt.Errorf("snapshot is of group %s, not of %s", got, g)
	}
	machineBytes = int64(binary.LittleEndian.Uint64(b[16:]))
	liveBytes = int64(binary.LittleEndian.Uint64(b[24:]))
	if machineBytes < 0 || liveBytes < 0 {
		return 0, 0, corruptf("stream of lengths %d and %d", machineBytes, liveBytes)
	}
	return machineBytes, liveBytes, nil
}

// appendFrame appends an entry's frame.
func appendFrame(b []byte, g id.GroupID, index, term uint64, s *bodySet, slots []uint32) ([]byte, error) {
	t := castagnoli()
	at := len(b)
	b = append(b, make([]byte, frameHeadBytes)...)
	b, err := appendSparse(b, g, index, s, slots)
	if err != nil {
		return nil, err
	}
	head := b[at : at+frameHeadBytes]
	binary.LittleEndian.PutUint64(head, index)
	binary.LittleEndian.PutUint64(head[8:], term)
	binary.LittleEndian.PutUint32(head[16:], uint32(len(b)-at-frameHeadBytes))
	binary.LittleEndian.PutUint32(head[20:], crc32.Update(groupSum(t, g), t, head[:20]))
	return b, nil
}

// readFrame reads and checks the frame of the entry at index.
func readFrame(r io.Reader, g id.GroupID, index uint64) (*raft.Log, *bodySet, error) {
	t := castagnoli()
	head := make([]byte, frameHeadBytes)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, corruptf("frame of entry %d: %v", index, err)
	}
	if sum := crc32.Update(groupSum(t, g), t, head[:20]); sum != binary.LittleEndian.Uint32(head[20:]) {
		return nil, nil, corruptf("frame of entry %d has checksum %08x", index, sum)
	}
	if got := binary.LittleEndian.Uint64(head); got != index {
		return nil, nil, corruptf("frame of entry %d instead of %d", got, index)
	}
	n := binary.LittleEndian.Uint32(head[16:])
	if n > maxEntryBytes {
		return nil, nil, corruptf("frame of entry %d has %d bytes", index, n)
	}
	var b bytes.Buffer // grows with what arrives, whatever the frame claims
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return nil, nil, corruptf("entry %d is cut off: %v", index, err)
	}
	s, err := decodeSparse(g, index, b.Bytes())
	if err != nil {
		return nil, nil, fmt.Errorf("entry %d: %w", index, err)
	}
	l := &raft.Log{Index: index, Term: binary.LittleEndian.Uint64(head[8:]), Type: raft.LogCommand, Data: b.Bytes()}
	return l, s, nil
}

// loadBodies reads an entry from the storage, checked.
func loadBodies(s Storage, g id.GroupID, index uint64) (*bodySet, uint64, error) {
	var l raft.Log
	if err := s.Entry(index, &l); err != nil {
		return nil, 0, err
	}
	if l.Type != raft.LogCommand {
		return nil, 0, fmt.Errorf("entry %d is raft's own and has no bodies: %w", index, raft.ErrLogNotFound)
	}
	set, err := openBodies(g, index, l.Data)
	if err != nil {
		return nil, 0, fmt.Errorf("entry %d: %w", index, err)
	}
	return set, l.Term, nil
}

// snapshotReader reads an opened snapshot: as bytes it is the stream for a member that
// lacks the bodies; this member's own machine takes only machine().
type snapshotReader struct {
	from  *snapshots
	file  *snapshotFile
	in    *os.File
	local bool // opened for this member's machine

	counted atomic.Int64 // bytes of the stream that count has counted so far

	buf    []byte // what Read has still to hand out
	source []byte // storage of buf, reused
	next   func() (func([]byte) ([]byte, error), bool)
	stop   func()
	err    error
}

var errLocalOnly = errors.New("raftfsm: the snapshot was opened for this member's own machine")

// machine returns the machine's bytes.
func (r *snapshotReader) machine() ([]byte, error) { return r.file.readMachine(r.in) }

// count counts the bytes of the stream. It reads every live entry, which takes as long as the disk needs for all
// bodies, so counted shows its progress.
func (r *snapshotReader) count() error {
	f := r.file
	r.counted.Store(streamHeadBytes + f.machineBytes + f.liveBytes + 2*sumBytes)
	return f.live.each(func(index uint64, slots []uint32) error {
		set, _, err := loadBodies(r.from.storage, r.from.group, index)
		if err != nil {
			return err
		}
		var bodyBytes int64
		for _, slot := range slots {
			body, ok := set.body(slot)
			if !ok {
				return fmt.Errorf("entry %d has no body %d", index, slot)
			}
			bodyBytes += int64(len(body))
		}
		r.counted.Add(frameHeadBytes + sparseBytes(len(slots), bodyBytes))
		return nil
	})
}

// Read implements io.Reader.
func (r *snapshotReader) Read(p []byte) (int, error) {
	if r.local {
		return 0, errLocalOnly
	}
	if r.next == nil {
		r.next, r.stop = iter.Pull(r.parts())
	}
	for len(r.buf) == 0 && r.err == nil {
		part, ok := r.next()
		if !ok {
			r.err = io.EOF
			break
		}
		if r.source, r.err = part(r.source[:0]); r.err == nil {
			r.buf = r.source
		}
	}
	if r.err != nil {
		return 0, r.err
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// parts yields functions that append the parts of the stream.
func (r *snapshotReader) parts() iter.Seq[func([]byte) ([]byte, error)] {
	g := r.from.group
	return func(yield func(func([]byte) ([]byte, error)) bool) {
		head := func(b []byte) ([]byte, error) {
			machine, err := r.machine()
			if err != nil {
				return nil, err
			}
			b = appendStreamHead(b, g, r.file.machineBytes, r.file.liveBytes)
			b = append(b, machine...)
			b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(machine, castagnoli()))
			b = append(b, r.file.live...)
			return binary.LittleEndian.AppendUint32(b, crc32.Checksum(r.file.live, castagnoli())), nil
		}
		if !yield(head) {
			return
		}
		err := r.file.live.each(func(index uint64, slots []uint32) error {
			frame := func(b []byte) ([]byte, error) {
				set, term, err := loadBodies(r.from.storage, g, index)
				if err != nil {
					return nil, err
				}
				return appendFrame(b, g, index, term, set, slots)
			}
			if !yield(frame) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(func([]byte) ([]byte, error) { return nil, err })
		}
	}
}

// Close implements io.Closer.
func (r *snapshotReader) Close() error {
	if r.stop != nil {
		r.stop()
	}
	if r.from == nil {
		return nil
	}
	if !r.local {
		r.from.endSending(r)
	}
	r.from = nil
	r.err = errors.New("raftfsm: snapshot is closed")
	return r.in.Close()
}

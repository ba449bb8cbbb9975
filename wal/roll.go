package wal

import (
	"fmt"

	"github.com/quorate/quorate/wal/vfs"
)

// aheadShare is which part of a segment is left when the file of the next one is made. Earlier,
// and a segment that is freed meanwhile would come too late to be written over; later, and a
// disk that takes 100 MB a second would leave the roller less than 80 ms.
const aheadShare = 8

// roll is the roller: it makes the files of segments before records need them, and seals those
// that are full, so that what changes names and sizes holds up no batch.
func (l *Log) roll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil {
		var err error
		switch full := l.sealing; {
		case l.wanted != nil && l.wanted.file == nil:
			err = l.create(l.wanted)
		case full != nil:
			if err = l.seal(full.seg, full.end, full.footer); err == nil {
				full.seg.closed, l.sealing = true, nil
				l.wake()
			}
		case l.ahead != nil && l.ahead.file == nil:
			err = l.create(l.ahead)
		case l.written:
			return
		default:
			l.rolling.Wait()
			continue
		}
		if err != nil {
			l.fail(err)
		}
		l.rolling.Broadcast()
	}
}

// ended is a segment that takes no more records, all of which are durable.
type ended struct {
	seg    *segment
	end    int64 // of the records
	footer []byte
}

// fileOf waits until a segment has a file.
func (l *Log) fileOf(s *segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.file != nil { // as for most batches: nobody is woken
		return l.err
	}
	l.wanted = s
	l.rolling.Broadcast()
	for s.file == nil && l.err == nil {
		l.awaitRoller()
	}
	l.wanted = nil
	return l.err
}

// awaitRoller waits for the roller's next step. The caller is the writer, and holds mu.
func (l *Log) awaitRoller() {
	l.forRoller = true
	l.rolling.Wait()
	l.forRoller = false
}

// handOver lets the roller seal a segment; it waits while there is another one, so that what
// a start has to scan is bounded.
func (l *Log) handOver(e *ended) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.sealing != nil && l.err == nil {
		l.awaitRoller()
	}
	l.sealing = e
	l.rolling.Broadcast()
	return l.err
}

// lookAhead has the next segment made when the head is nearly full. Files are made in the order
// of their numbers, so the head must have one. The caller holds mu.
func (l *Log) lookAhead() {
	if l.ahead == nil && l.head.file != nil && l.head.end > l.c.SegmentBytes-l.c.SegmentBytes/aheadShare {
		l.ahead = l.newSegment()
		l.rolling.Broadcast()
	}
}

// create makes a segment's file. Only a file whose header is durable gets a segment's
// name, and nothing is written to it before the name is durable. It holds mu, and lets it go
// for the disk.
func (l *Log) create(s *segment) error {
	name := newName
	if n := len(l.spares); n > 0 {
		name, s.full = l.spares[n-1].name, l.spares[n-1].size
		l.spares = l.spares[:n-1]
	}
	l.mu.Unlock()
	f, err := l.begin(s, name)
	l.mu.Lock()
	s.file = f // also after an error, to be closed
	if err != nil {
		return fmt.Errorf("begin segment %s: %w", segmentName(s.seq), err)
	}
	return nil
}

// begin gives a segment's file its header and its name. The name comes last: a file with a segment's name
// is whole.
func (l *Log) begin(s *segment, name string) (f vfs.File, err error) {
	if name == newName {
		f, err = l.rollFiles.Create(name)
	} else {
		f, err = l.rollFiles.Open(name)
	}
	if err != nil {
		return nil, err
	}
	err = l.runSteps(
		func() error { _, err := f.WriteAt(header(s.seq, l.secret), 0); return err },
		f.Sync,
		func() error { return l.dir.Rename(name, segmentName(s.seq)) },
		l.rollFiles.SyncDir,
	)
	if err == nil {
		l.checkSpace(0)
	}
	return f, err
}

// seal writes footer and trailer behind the records, which must be durable, and cuts off what
// an earlier generation has left. It holds mu, and lets it go for the disk.
func (l *Log) seal(s *segment, end int64, footer []byte) error {
	l.mu.Unlock()
	tail := appendSeal(nil, s.seq, s.salt, end, footer)
	size := end + int64(len(tail))
	err := l.runSteps(
		func() error { _, err := s.file.WriteAt(tail, end); return err },
		func() error { return s.file.Truncate(size) },
		s.file.Sync,
	)
	l.mu.Lock()
	if err != nil {
		return fmt.Errorf("seal %s: %w", segmentName(s.seq), err)
	}
	s.size = size
	return nil
}

// runSteps runs steps until one fails or the log has failed: then nothing touches the disk.
func (l *Log) runSteps(steps ...func() error) error {
	for _, do := range steps {
		if err := l.Failed(); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// dropAhead takes away the file that was made ahead and not used, after the workers have ended.
func (l *Log) dropAhead() error {
	s := l.ahead
	if s == nil || s.file == nil {
		return nil
	}
	err := s.file.Close()
	if err == nil && l.err == nil {
		err = l.dir.Remove(segmentName(s.seq))
	}
	return err
}

package archive

import "os"

// stepBytes is how much of a file is written at a time, and twice that how much of it waits for the disk at most. A
// node that syncs its log to the same disk waits for that as well.
const stepBytes = 1 << 20

// steps writes a file from its beginning. The disk takes one step while the next one is written, instead of all at the
// end. What is written is durable after Sync, as always. One goroutine uses it.
type steps struct {
	file *os.File
	end  int64 // of what is written
	step int64 // where the step begins that is being written
}

// Write implements io.Writer.
func (s *steps) Write(b []byte) (written int, err error) {
	for written < len(b) && err == nil {
		room := stepBytes - int(s.end-s.step)
		n := 0
		n, err = s.file.Write(b[written:min(len(b), written+room)])
		written += n
		s.end += int64(n)
		if err == nil && n == room {
			err = s.next()
		}
	}
	return written, err
}

// next has the disk begin with the step that is written, and waits until it has taken the one before.
func (s *steps) next() error {
	if err := beginWriting(s.file, s.step, stepBytes); err != nil {
		return err
	}
	before := s.step - stepBytes
	s.step = s.end
	if before < 0 {
		return nil
	}
	return waitWritten(s.file, before, stepBytes)
}

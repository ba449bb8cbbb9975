//go:build linux

package cri

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// longestLine is how much of a line without an end is held back, in bytes; more is written in parts.
const longestLine = 16 << 10

// containerLog is a container's output in the file that the kubelet reads: each line with its time, stream, and
// whether it is whole. Safe for concurrent use.
type containerLog struct {
	path string

	mu sync.Mutex
	f  *os.File
}

func openLog(path string) (*containerLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	l := &containerLog{path: path}
	return l, l.reopen()
}

// reopen continues in a new file if the kubelet has moved the old one away.
func (l *containerLog) reopen() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		_ = l.f.Close() // what was written is there
	}
	l.f = f
	return nil
}

func (l *containerLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}

func (l *containerLog) line(stream, tag string, text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintf(l.f, "%s %s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), stream, tag, text)
	return err
}

// stream is one of a container's outputs; one goroutine writes to it.
type stream struct {
	log  *containerLog
	name string // stdout or stderr
	held []byte // of a line that has not ended
}

// Write never fails towards the container: a log that cannot be written is no reason for it to end.
func (s *stream) Write(p []byte) (int, error) {
	s.held = append(s.held, p...)
	for {
		text, rest, ends := bytes.Cut(s.held, []byte("\n"))
		switch {
		case ends:
			_ = s.log.line(s.name, "F", text)
			s.held = rest
		case len(s.held) > longestLine:
			_ = s.log.line(s.name, "P", s.held)
			s.held = nil
			return len(p), nil
		default:
			return len(p), nil
		}
	}
}

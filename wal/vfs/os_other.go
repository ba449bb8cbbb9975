//go:build !linux

package vfs

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

func datasync(f *os.File) error { return f.Sync() }

// WritePartsAt implements File.
func (f osFile) WritePartsAt(parts [][]byte, off int64) error {
	for _, p := range parts {
		n, err := f.WriteAt(p, off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// Allocate is not known here.
func (f osFile) Allocate(int64) error { return errors.ErrUnsupported }

// Lock leaves a file behind after a crash: production is Linux, this is for developers.
func (d osDir) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(d.in(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, fmt.Errorf("vfs: is another process using the directory? if not, remove the lock: %w", err)
	}
	return removing{f}, nil
}

// removing is a file that is removed when it is closed.
type removing struct{ *os.File }

func (r removing) Close() error { return errors.Join(r.File.Close(), os.Remove(r.Name())) }

// Space is not known here, so there is never pressure.
func (d osDir) Space() (free, total uint64, err error) { return math.MaxInt64, math.MaxInt64, nil }

// Package sealed keeps small files that a node cannot do without: a few lines of text under a
// checksum, which an operator can read (docs/formats/datadir.md). They exist in copies, so that
// one torn copy costs nothing. Nothing here is safe for concurrent use on one file.
package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// Copies is in how many copies a file exists: "name.0" and "name.1".
	Copies    = 2
	version   = "quorate 1"
	maxSealed = 64 << 20 // bytes of a sealed file
	fileMode  = 0o600
)

// ErrDamaged means that something that this node has stored is not what was written, and it can neither do without it
// nor get it from elsewhere.
var ErrDamaged = errors.New("cluster: stored data is damaged")

// Record is the content of a sealed file, in order. Neither keys nor values have line
// breaks; keys have no spaces.
type Record []Field

// Field is a line of a Record.
type Field struct{ Key, Value string }

// Get returns the value of the first field with that key, or "".
func (r Record) Get(key string) string {
	for _, f := range r {
		if f.Key == key {
			return f.Value
		}
	}
	return ""
}

// With returns the record with one more line. The record itself must not be used afterwards.
func (r Record) With(key, value string) Record { return append(r, Field{key, value}) }

// Path is where a copy of a file is.
func Path(dir, name string, copyNo int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.%d", name, copyNo))
}

// encode writes the version, a line for each field, and the checksum of all that.
func encode(r Record) []byte {
	var b bytes.Buffer
	b.WriteString(version + "\n")
	for _, f := range r {
		b.WriteString(f.Key + " " + f.Value + "\n")
	}
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum(b.Bytes(), crc32.MakeTable(crc32.Castagnoli)))
	return b.Bytes()
}

// decode takes only what encode would write for the same fields: anything else is damage.
func decode(b []byte) (Record, error) {
	at := bytes.LastIndex(b, []byte("crc32c "))
	if at < 0 || len(b) > maxSealed {
		return nil, errors.New("is torn: it has no checksum")
	}
	lines := strings.Split(strings.TrimSuffix(string(b[:at]), "\n"), "\n")
	if lines[0] != version {
		return nil, fmt.Errorf("starts with %q, this version reads %q", lines[0], version)
	}
	var r Record
	for _, l := range lines[1:] {
		key, value, _ := strings.Cut(l, " ")
		r = append(r, Field{key, value})
	}
	if !bytes.Equal(encode(r), b) {
		return nil, errors.New("is torn: its checksum is wrong")
	}
	return r, nil
}

// Write replaces one copy. It returns when the file and its name are durable.
func Write(dir, name string, copyNo int, r Record) error {
	path := Path(dir, name, copyNo)
	fault := func(err error) error { return fmt.Errorf("cluster: writing %q: %w", path, err) }
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return fault(err)
	}
	_, err = f.Write(encode(r))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fault(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fault(err)
	}
	return SyncDir(dir)
}

// WriteTwice replaces all copies, one after the other.
func WriteTwice(dir, name string, r Record) error {
	for copyNo := range Copies {
		if err := Write(dir, name, copyNo, r); err != nil {
			return err
		}
	}
	return nil
}

// ReadCopy reads one copy.
func ReadCopy(dir, name string, copyNo int) (Record, error) {
	path := Path(dir, name, copyNo)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	r, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("cluster: file %q %w", path, err)
	}
	return r, nil
}

// Read returns the first whole copy; copies are written in this order. Its error is fs.ErrNotExist only if no copy
// exists.
func Read(dir, name string) (Record, error) {
	var faults []error
	for copyNo := range Copies {
		r, err := ReadCopy(dir, name, copyNo)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			// Its cause must not look like a missing file.
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		return nil, fmt.Errorf("cluster: no %q in %q: %w", name, dir, fs.ErrNotExist)
	}
	return nil, fmt.Errorf("%w: no copy of file %q in %q is whole: restore one from a backup, or give up what the directory holds "+
		"(docs/operations.md, \"Damaged files\"): %w", ErrDamaged, name, dir, errors.Join(faults...))
}

// Mend makes the copies of a file alike: a start may have found one that is damaged, or
// a crash may have come between two writes. It returns the paths of those that were written.
func Mend(dir, name string) (mended []string, err error) {
	r, err := Read(dir, name)
	if err != nil {
		return nil, err
	}
	for copyNo := range Copies {
		path := Path(dir, name, copyNo)
		have, err := os.ReadFile(path)
		if err == nil && bytes.Equal(have, encode(r)) {
			continue
		}
		if err := Write(dir, name, copyNo, r); err != nil {
			return mended, err
		}
		mended = append(mended, path)
	}
	return mended, nil
}

// Overwrite replaces the bytes of a copy that is there: on a disk that is full there is
// no room for a new file. A crash may leave it torn, so that the other copy must do without it.
func Overwrite(dir, name string, copyNo int, r Record) error {
	path := Path(dir, name, copyNo)
	f, err := os.OpenFile(path, os.O_WRONLY, fileMode)
	if err == nil {
		b := encode(r)
		_, err = f.WriteAt(b, 0)
		err = errors.Join(err, f.Truncate(int64(len(b))), f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("cluster: writing %q: %w", path, err)
	}
	return nil
}

// SyncDir makes names in a directory durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("cluster: syncing directory %q: %w", path, err)
	}
	return nil
}

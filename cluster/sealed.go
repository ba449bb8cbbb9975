package cluster

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

// A sealed file is a few lines of text under a checksum, small enough to be read by an
// operator. Every file exists in two copies, "name.0" and "name.1".
const (
	sealedCopies  = 2
	sealedVersion = "quorate 1"
	maxSealed     = 64 << 20 // bytes of a sealed file
)

// record is the content of a sealed file, in order. Neither keys nor values have line
// breaks; keys have no spaces.
type record []field

type field struct{ key, value string }

func (r record) get(key string) string {
	for _, f := range r {
		if f.key == key {
			return f.value
		}
	}
	return ""
}

func sealedPath(dir, name string, copyNo int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.%d", name, copyNo))
}

func seal(r record) []byte {
	var b bytes.Buffer
	b.WriteString(sealedVersion + "\n")
	for _, f := range r {
		b.WriteString(f.key + " " + f.value + "\n")
	}
	fmt.Fprintf(&b, "crc32c %08x\n", crc32.Checksum(b.Bytes(), crc32.MakeTable(crc32.Castagnoli)))
	return b.Bytes()
}

func unseal(b []byte) (record, error) {
	at := bytes.LastIndex(b, []byte("crc32c "))
	if at < 0 || len(b) > maxSealed {
		return nil, errors.New("is torn: it has no checksum")
	}
	lines := strings.Split(strings.TrimSuffix(string(b[:at]), "\n"), "\n")
	if lines[0] != sealedVersion {
		return nil, fmt.Errorf("starts with %q, this version reads %q", lines[0], sealedVersion)
	}
	var r record
	for _, l := range lines[1:] {
		key, value, _ := strings.Cut(l, " ")
		r = append(r, field{key, value})
	}
	if !bytes.Equal(seal(r), b) {
		return nil, errors.New("is torn: its checksum is wrong")
	}
	return r, nil
}

// writeSealed replaces one copy. It returns when the file and its name are durable.
func writeSealed(dir, name string, copyNo int, r record) error {
	path := sealedPath(dir, name, copyNo)
	fault := func(err error) error { return fmt.Errorf("cluster: writing %q: %w", path, err) }
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return fault(err)
	}
	_, err = f.Write(seal(r))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fault(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fault(err)
	}
	return syncDir(dir)
}

func writeSealedTwice(dir, name string, r record) error {
	for copyNo := range sealedCopies {
		if err := writeSealed(dir, name, copyNo, r); err != nil {
			return err
		}
	}
	return nil
}

func readSealedCopy(dir, name string, copyNo int) (record, error) {
	path := sealedPath(dir, name, copyNo)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	r, err := unseal(b)
	if err != nil {
		return nil, fmt.Errorf("cluster: file %q %w", path, err)
	}
	return r, nil
}

// readSealed returns the first copy that is whole; copies are written in this order.
// Its error is fs.ErrNotExist only if there is none at all.
func readSealed(dir, name string) (record, error) {
	var faults []error
	for copyNo := range sealedCopies {
		r, err := readSealedCopy(dir, name, copyNo)
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

// mendSealed makes the copies of a file alike: a start may have found one that is damaged, or
// a crash may have come between two writes. It returns the paths of those that were written.
func mendSealed(dir, name string) (mended []string, err error) {
	r, err := readSealed(dir, name)
	if err != nil {
		return nil, err
	}
	for copyNo := range sealedCopies {
		path := sealedPath(dir, name, copyNo)
		have, err := os.ReadFile(path)
		if err == nil && bytes.Equal(have, seal(r)) {
			continue
		}
		if err := writeSealed(dir, name, copyNo, r); err != nil {
			return mended, err
		}
		mended = append(mended, path)
	}
	return mended, nil
}

// overwriteSealed replaces the bytes of a copy that is there: on a disk that is full there is
// no room for a new file. A crash may leave it torn, so that the other copy must do without it.
func overwriteSealed(dir, name string, copyNo int, r record) error {
	path := sealedPath(dir, name, copyNo)
	f, err := os.OpenFile(path, os.O_WRONLY, fileMode)
	if err == nil {
		b := seal(r)
		_, err = f.WriteAt(b, 0)
		err = errors.Join(err, f.Truncate(int64(len(b))), f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("cluster: writing %q: %w", path, err)
	}
	return nil
}

// syncDir makes names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("cluster: syncing directory %q: %w", path, err)
	}
	return nil
}

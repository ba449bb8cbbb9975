package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const tarSuffix = ".tar"

// blockBytes is the size of a head in a tar file, and heads stand at multiples of it.
const blockBytes = 512

// searchedBytes is how far a damaged file is searched for a head that is whole: beyond an object of the largest size.
const searchedBytes = 64 << 20

// tarFile is a Store in one tar file: it is either written, under a name of its own until Close, or read.
type tarFile struct {
	path      string // in the end
	temporary string // of a file that is written
	file      *os.File
	w         *tar.Writer
	at        map[string]extent // of objects that can be read
}

// extent is where an object's content is in the file.
type extent struct{ offset, size int64 }

// createTar begins a file, which has a name that no other backup has until it is whole, and makes what is missing of its
// directory's path, as createDirectory does.
func createTar(ctx context.Context, path string) (*tarFile, error) {
	if err := refuseOtherTar(ctx, path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), directoryMode); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	removeStale(ctx, filepath.Dir(path), time.Now())
	f, err := os.CreateTemp(filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), tarSuffix)+".*"+tarSuffix+temporarySuffix) // of fileMode
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &tarFile{path: path, temporary: f.Name(), file: f, w: tar.NewWriter(&steps{file: f})}, nil
}

// removeStale removes from a directory the files of backups that were never completed, and to which nothing was written for
// StaleAfter: programs that were killed have left them, and where nobody calls Prune they would fill it. What cannot be
// removed stays: the new backup is worth more.
func removeStale(ctx context.Context, dir string, now time.Time) {
	names, err := Location{Name: dir}.entries()
	if err != nil {
		return
	}
	for _, name := range names {
		at := Location{Name: name}
		if !at.isTemporary() {
			continue
		}
		f := &Found{Location: at}
		if f, err = f.temporary(); err == nil && f != nil && now.Sub(f.Changed) > StaleAfter {
			_ = at.Remove(ctx)
		}
	}
}

// refuseOtherTar makes sure that a file is not replaced, unless it is an incomplete backup.
func refuseOtherTar(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	t, err := openTar(path)
	if err != nil {
		return fmt.Errorf("%w: name another file, or remove that one", err)
	}
	if _, err = refuseOther(ctx, path, t); err != nil {
		return err // refuseOther has closed the file
	}
	if name, other := t.other(); other {
		return errors.Join(fmt.Errorf("archive: %s is no backup, but has %q: name another file, or remove that one", path, name), t.Close())
	}
	return t.Close()
}

// openTar reads the heads of all objects.
func openTar(path string) (*tarFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	t := &tarFile{path: path, file: f, at: make(map[string]extent)}
	if err := t.readHeads(); err != nil {
		return nil, errors.Join(t.unreadable(err), f.Close())
	}
	return t, nil
}

// readHeads finds the objects. What is behind the zeros that end a tar file was a part of it, before something else was
// written over it.
func (t *tarFile) readHeads() error {
	for r := tar.NewReader(t.file); ; {
		h, err := r.Next()
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		offset, err := t.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if !end {
			t.at[h.Name] = extent{offset: offset, size: h.Size}
			continue
		}
		switch behind, err := t.search(offset); {
		case err != nil:
			return err
		case behind != "":
			return fmt.Errorf("%w: zeros that end the file are in front of %s, so it is damaged", tar.ErrHeader, behind)
		}
		return nil
	}
}

// unreadable is the error of a file that is not whole: an otherFileError, unless it has a part of a backup.
func (t *tarFile) unreadable(why error) error {
	err := fmt.Errorf("archive: %s is no whole tar file: %w", t.path, why)
	if !errors.Is(why, tar.ErrHeader) && !errors.Is(why, io.ErrUnexpectedEOF) {
		return err
	}
	if _, other := t.other(); other {
		return &otherFileError{err}
	}
	if len(t.at) > 0 {
		return err
	}
	switch found, failed := t.search(0); {
	case failed != nil:
		return errors.Join(err, failed)
	case found != "":
		return fmt.Errorf("%w; it has %s of a backup, so it is damaged", err, found)
	}
	return &otherFileError{err}
}

// search returns the name in a head that a backup may have, behind an offset or near the end of the file, where the
// manifest is, or "".
func (t *tarFile) search(from int64) (name string, err error) {
	size, err := t.file.Seek(0, io.SeekEnd)
	if err == nil {
		name, err = t.searchFrom(from)
	}
	if last := (size - searchedBytes) / blockBytes * blockBytes; name == "" && err == nil && last > from {
		name, err = t.searchFrom(last)
	}
	return name, err
}

// searchFrom is search in one place. The name alone makes the head at the beginning of the file.
func (t *tarFile) searchFrom(from int64) (name string, err error) {
	isOurs := regexp.MustCompile(ours).Match
	in := bufio.NewReaderSize(io.NewSectionReader(t.file, from, searchedBytes), 1<<20)
	var block [blockBytes]byte
	for at := from; ; at += blockBytes {
		if _, err := io.ReadFull(in, block[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		if at > 0 && string(block[257:262]) != "ustar" {
			continue
		}
		if name, _, _ := bytes.Cut(block[:100], []byte{0}); isOurs(name) {
			return string(name), nil
		}
	}
}

// otherFileError is the error of a file that is not of a backup, as far as it can be read.
type otherFileError struct{ err error }

func (e *otherFileError) Error() string { return e.err.Error() }
func (e *otherFileError) Unwrap() error { return e.err }

// other returns what is in the file and in no backup; false: nothing is.
func (t *tarFile) other() (name string, is bool) {
	isOurs := regexp.MustCompile(ours).MatchString
	for name := range t.at {
		if !isOurs(name) {
			return name, true
		}
	}
	return "", false
}

func (t *tarFile) Put(_ context.Context, name string, content []byte) error {
	err := t.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: fileMode, ModTime: time.Now()})
	if err == nil {
		_, err = t.w.Write(content)
	}
	if err != nil {
		return fmt.Errorf("archive: %s: %w", t.path, err)
	}
	return nil
}

func (t *tarFile) Get(_ context.Context, name string) (io.ReadCloser, error) {
	x, ok := t.at[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s in %s", ErrNoObject, name, t.path)
	}
	return io.NopCloser(io.NewSectionReader(t.file, x.offset, x.size)), nil
}

// Close gives a file that was written its name, unless another backup has it by now. One that cannot be completed is
// removed.
func (t *tarFile) Close() error {
	if t.w == nil {
		return t.file.Close()
	}
	if err := errors.Join(t.w.Close(), t.file.Sync()); err != nil {
		return errors.Join(fmt.Errorf("archive: %w", err), t.Abandon())
	}
	if err := refuseOtherTar(context.Background(), t.path); err != nil {
		return errors.Join(err, t.Abandon())
	}
	err := t.file.Close()
	if err == nil {
		err = os.Rename(t.temporary, t.path)
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return syncDirectory(filepath.Dir(t.path))
}

// Abandon removes a file that was written, which does not have its final name yet.
func (t *tarFile) Abandon() error {
	err := t.file.Close()
	if t.w != nil {
		err = errors.Join(err, os.Remove(t.temporary))
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// list yields the objects with the time of the file.
func (t *tarFile) list(context.Context) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		info, err := t.file.Stat()
		if err != nil {
			yield(listed{}, fmt.Errorf("archive: %w", err))
			return
		}
		for name := range t.at {
			if !yield(listed{name, info.ModTime()}, nil) {
				return
			}
		}
	}
}

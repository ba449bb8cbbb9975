package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
)

// Modes of files and directories: messages and password hashes are in them.
const (
	fileMode      = 0o600
	directoryMode = 0o700
)

// temporarySuffix ends the names of files that are being written.
const temporarySuffix = ".tmp"

// directory is a Store with a file for each object.
type directory struct{ path string }

// createDirectory makes what is missing of a path.
func createDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, directoryMode); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return openDirectory(path)
}

// openDirectory refuses what is no directory: a file may be a tar file of another name.
func openDirectory(path string) (*directory, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("archive: %s is neither a directory nor a file whose name ends in %s", path, tarSuffix)
	}
	return &directory{path: path}, nil
}

// Put writes the file under another name first: one with its own name is whole.
func (d *directory) Put(_ context.Context, name string, content []byte) error {
	path := filepath.Join(d.path, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), directoryMode); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	temporary := path + temporarySuffix
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	_, err = (&steps{file: f}).Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err == nil {
		err = syncDirectory(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

func (d *directory) Get(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(d.path, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoObject, name)
	}
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return f, nil
}

func (d *directory) list(context.Context) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		err := filepath.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was removed meanwhile
			}
			if err != nil {
				return err
			}
			name, err := filepath.Rel(d.path, path)
			if err == nil && !yield(listed{filepath.ToSlash(name), info.ModTime()}, nil) {
				return filepath.SkipAll
			}
			return err
		})
		if err != nil {
			yield(listed{}, fmt.Errorf("archive: %w", err))
		}
	}
}

// remove makes the removal durable at once: what is removed later must not be missing while this is there.
func (d *directory) remove(_ context.Context, name string) error {
	path := filepath.Join(d.path, filepath.FromSlash(name))
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if !isManifest(name) {
		return nil
	}
	return syncDirectory(filepath.Dir(path))
}

// removed removes the directories as far as they are empty. What else is in them stays.
func (d *directory) removed() error {
	queues := filepath.Join(d.path, queuesName)
	entries, err := os.ReadDir(queues)
	if err == nil {
		for _, e := range entries {
			_ = os.Remove(filepath.Join(queues, e.Name())) // it has files that are not ours
		}
	}
	_ = os.Remove(queues)
	_ = os.Remove(d.path)
	return syncDirectory(filepath.Dir(d.path))
}

func (d *directory) Close() error { return syncDirectory(d.path) }

// Abandon leaves the objects: without a manifest they are no backup.
func (d *directory) Abandon() error { return d.Close() }

// syncDirectory makes the names of a directory durable.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

package vfs

import (
	"fmt"
	"os"
	"path/filepath"
)

// Modes of what is created: a log holds the messages of all users.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// osDir is a directory of the operating system.
type osDir struct{ path string }

// OS returns a directory of the operating system; it is created if it is missing.
func OS(path string) (Dir, error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, fmt.Errorf("vfs: %w", err)
	}
	return osDir{path}, nil
}

func (d osDir) Path() string             { return d.path }
func (d osDir) in(name string) string    { return filepath.Join(d.path, name) }
func (d osDir) Remove(name string) error { return os.Remove(d.in(name)) }

func (d osDir) Create(name string) (File, error) {
	return d.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (d osDir) Open(name string) (File, error) { return d.open(name, os.O_RDWR) }

// open opens a file of this directory; name has no path.
func (d osDir) open(name string, flag int) (File, error) {
	f, err := os.OpenFile(d.in(name), flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d osDir) Rename(from, to string) error { return os.Rename(d.in(from), d.in(to)) }

func (d osDir) List() ([]string, error) {
	entries, err := os.ReadDir(d.path) // sorted
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (d osDir) SyncDir() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	s, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return s.Size(), nil
}

func (f osFile) Sync() error { return datasync(f.File) }

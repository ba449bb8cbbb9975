// Package vfs is the little that the log needs of a directory of files: an interface, the
// operating system's file system behind it, and one in memory that loses power, tears
// writes and fails on demand.
//
// Concurrency: all methods of a Dir and of its Files may be called concurrently, as long
// as writes to one file do not overlap. Errors are those of the operating system, wrapped
// where a name has to be added.
package vfs

import "io"

// Dir is a directory that belongs to one log. Names have no separators. What Create,
// Rename and Remove did survives a power cut only after SyncDir.
type Dir interface {
	// Path names the directory in errors.
	Path() string
	// Create makes an empty file for reading and writing; an error if the name exists.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing; errors.Is(err, fs.ErrNotExist)
	// if there is none.
	Open(name string) (File, error)
	// Rename gives a file another name and replaces the file that has it.
	Rename(from, to string) error
	// Remove deletes a file; files that are open stay readable.
	Remove(name string) error
	// List returns the names of all files, sorted.
	List() ([]string, error)
	// SyncDir makes the names durable.
	SyncDir() error
	// Lock keeps other processes out until it is closed; an error if one is in.
	Lock(name string) (io.Closer, error)
	// Space returns how many bytes may still be written to the file system, and how many
	// it holds.
	Space() (free, total uint64, err error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	// WriteAt writes at an offset, beyond the end too; it survives a power cut after Sync.
	io.WriterAt
	// WritePartsAt writes parts one behind the other at an offset, as WriteAt would write them in one piece. It
	// may change the slice parts, but not the bytes.
	WritePartsAt(parts [][]byte, off int64) error
	// Sync makes the bytes and the size durable. After an error nothing is known about
	// what was written since the last success, and a repetition proves nothing.
	Sync() error
	// Truncate sets the size.
	Truncate(size int64) error
	// Allocate makes the file that large, with room for all of it taken from the file
	// system; errors.Is(err, errors.ErrUnsupported) where that is not possible.
	Allocate(size int64) error
	// Size returns the size in bytes.
	Size() (int64, error)
	io.Closer
}

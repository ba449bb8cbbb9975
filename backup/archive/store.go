// Package archive keeps backups: the definitions of a cluster, and copies of queues as package backup encodes them, as
// objects in a directory, in a tar file or in S3. A manifest lists the objects with their checksums and is written
// last, so a backup without one is incomplete. Objects may be encrypted (docs/formats/backup.md).
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Store holds the objects of one backup. Names have slashes. Only one goroutine uses a Store.
type Store interface {
	// Put stores an object; it is durable when Put returns, or when Close does.
	Put(ctx context.Context, name string, content []byte) error
	// Get opens an object. The error is ErrNoObject if it does not exist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Close ends the use of the store; of one that was created, nothing is complete before.
	Close() error
	// Abandon ends the use of a store whose backup is not completed: nothing in it looks like a backup.
	Abandon() error
}

// ErrNoObject means that a store lacks an object.
var ErrNoObject = errors.New("archive: there is no such object")

// ErrExists means that a place has a backup already.
var ErrExists = errors.New("archive: the place has a backup already")

// Location is where a backup is: a directory, a file whose name ends in .tar, or s3://bucket/prefix.
type Location struct {
	Name string
	S3   S3Config // for s3://
}

// Create opens a store for a new backup. The error is ErrExists if the place has one that is complete; what is left of one
// that is not is replaced. A tar file that is no backup, or cannot be read, is refused with another error.
func (l Location) Create(ctx context.Context) (Store, error) {
	switch {
	case strings.HasPrefix(l.Name, s3Scheme):
		s, err := openS3(l.Name, l.S3)
		if err != nil {
			return nil, err
		}
		return refuseOther(ctx, l.Name, s)
	case strings.HasSuffix(l.Name, tarSuffix):
		return createTar(ctx, l.Name)
	default:
		s, err := createDirectory(l.Name)
		if err != nil {
			return nil, err
		}
		return refuseOther(ctx, l.Name, s)
	}
}

// Open opens the store of a backup.
func (l Location) Open(context.Context) (Store, error) {
	switch {
	case strings.HasPrefix(l.Name, s3Scheme):
		return openS3(l.Name, l.S3)
	case strings.HasSuffix(l.Name, tarSuffix):
		return openTar(l.Name)
	default:
		return openDirectory(l.Name)
	}
}

// refuseOther makes sure that a backup is not written over another one.
func refuseOther(ctx context.Context, name string, s Store) (Store, error) {
	other, err := complete(ctx, s)
	if err == nil && other {
		err = fmt.Errorf("%w: %s: name another place, or remove that one", ErrExists, name)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// complete reports whether a store has a manifest, encrypted or not.
func complete(ctx context.Context, s Store) (bool, error) {
	for _, manifest := range []string{manifestName, manifestName + encryptedSuffix} {
		r, err := s.Get(ctx, manifest)
		if err == nil {
			return true, r.Close()
		}
		if !errors.Is(err, ErrNoObject) {
			return false, err
		}
	}
	return false, nil
}

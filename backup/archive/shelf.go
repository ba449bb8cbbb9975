package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// Found is a backup among several in one place.
type Found struct {
	Location Location
	// Manifest is nil if the backup is incomplete, or cannot be read.
	Manifest *Manifest
	// Incomplete means that there is no manifest: the backup is being made, or was not completed.
	Incomplete bool
	// Changed is when an incomplete backup was last written to.
	Changed time.Time
	// Err is why the manifest cannot be read: it is damaged or encrypted, or the place does not answer.
	Err error
}

// Backups returns the backups in a place, newest first by the time at which they began, and behind them those without a
// manifest that can be read. What is no backup is left out. The place is a directory or a prefix of S3.
func (l Location) Backups(ctx context.Context, k *Keys) ([]Found, error) {
	var names []string
	var err error
	switch {
	case strings.HasPrefix(l.Name, s3Scheme):
		names, err = l.prefixes(ctx)
	case strings.HasSuffix(l.Name, tarSuffix):
		err = fmt.Errorf("archive: %s is one backup: name the directory in which it is", l.Name)
	default:
		names, err = l.entries()
	}
	if err != nil {
		return nil, err
	}
	var out []Found
	for _, n := range names {
		at := Location{Name: n, S3: l.S3}
		f, err := at.look(ctx, k)
		if err != nil {
			return nil, err
		}
		if f != nil {
			out = append(out, *f)
		}
	}
	slices.SortStableFunc(out, func(a, b Found) int {
		switch {
		case a.Manifest == nil || b.Manifest == nil:
			return cmp.Compare(readable(b), readable(a))
		default:
			return b.Manifest.Began.Compare(a.Manifest.Began)
		}
	})
	return out, nil
}

// readable is 1 for a backup with a manifest.
func readable(f Found) int {
	if f.Manifest == nil {
		return 0
	}
	return 1
}

// entries returns what is in a directory.
func (l Location) entries() ([]string, error) {
	all, err := os.ReadDir(l.Name)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	var out []string
	for _, e := range all {
		at := Location{Name: filepath.Join(l.Name, e.Name())}
		if tar := at.isTar() || at.isTemporary(); tar != e.IsDir() { // a directory of such a name is no backup
			out = append(out, at.Name)
		}
	}
	return out, nil
}

// prefixes returns the prefixes below a prefix.
func (l Location) prefixes(ctx context.Context) ([]string, error) {
	b, err := openS3(l.Name, l.S3)
	if err != nil {
		return nil, err
	}
	var out []string
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.below()}) {
		if o.Err != nil {
			return nil, b.fault("", o.Err)
		}
		if strings.HasSuffix(o.Key, "/") {
			out = append(out, s3Scheme+b.name+"/"+strings.TrimSuffix(o.Key, "/"))
		}
	}
	return out, nil
}

// look reads the manifest at a place; nil: there is no backup.
func (l Location) look(ctx context.Context, k *Keys) (*Found, error) {
	f := &Found{Location: l}
	if l.isTemporary() {
		return f.temporary()
	}
	s, err := l.Open(ctx)
	if _, other := errors.AsType[*otherFileError](err); other {
		return nil, nil //nolint:nilnil // it is something else
	}
	if err != nil {
		f.Err = err
		return f, nil // the error belongs to this backup alone
	}
	r, err := Open(ctx, s, k)
	if err == nil {
		f.Manifest = &r.Manifest
		return f, r.Close()
	}
	defer func() { _ = s.Close() }() // it was only read
	if x, ok := s.(lister); ok {
		return f.unread(ctx, x, err)
	}
	f.Err = err
	return f, nil
}

// isTar reports whether a place is a tar file by its name.
func (l Location) isTar() bool {
	return !strings.HasPrefix(l.Name, s3Scheme) && strings.HasSuffix(l.Name, tarSuffix)
}

// isTemporary reports whether a place is, by its name, a tar file that is being written.
func (l Location) isTemporary() bool {
	return !strings.HasPrefix(l.Name, s3Scheme) && strings.HasSuffix(l.Name, tarSuffix+temporarySuffix)
}

// temporary examines a tar file that is being written, or was not completed; nil: it is another program's, or gone.
func (f *Found) temporary() (*Found, error) {
	info, err := os.Stat(f.Location.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // it was completed meanwhile, or removed
	}
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	t, err := openTar(f.Location.Name)
	_, other := errors.AsType[*otherFileError](err)
	if err == nil { // one without anything yet counts as ours
		_, other = t.other()
		err = t.Close()
	}
	if other || errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // it is something else, or was completed meanwhile
	}
	f.Incomplete, f.Changed = true, info.ModTime()
	return f, nil
}

// unread finds out what is at a place without a readable manifest; why is why it is not readable. It is an incomplete
// backup, or one that is complete, but damaged or encrypted. nil: it is something else, which may have a
// manifest.json of its own.
func (f *Found) unread(ctx context.Context, x lister, why error) (*Found, error) {
	missing := errors.Is(why, ErrNoObject)
	isOurs := regexp.MustCompile(ours).MatchString
	manifest, parts := false, false
	for o, err := range x.list(ctx) {
		switch {
		case err != nil && missing:
			return nil, err
		case err != nil:
			f.Err = errors.Join(why, err)
			return f, nil
		case !isOurs(o.name):
		case isManifest(o.name):
			manifest = true
		default:
			parts = true
			if o.changed.After(f.Changed) {
				f.Changed = o.changed
			}
		}
		if parts && (manifest || !missing) {
			f.Err = why
			return f, nil
		}
	}
	switch {
	case parts:
		f.Incomplete = true
	case !missing && !manifest: // there was one a moment ago
		f.Err = why
	default:
		return nil, nil //nolint:nilnil // it is something else
	}
	return f, nil
}

// Remove removes a backup: its manifest first, so that what is left after an interruption is incomplete. Only objects
// that a backup has are removed.
func (l Location) Remove(ctx context.Context) error {
	if l.isTar() || l.isTemporary() {
		if err := os.Remove(l.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("archive: %w", err)
		}
		return syncDirectory(filepath.Dir(l.Name))
	}
	s, err := l.Open(ctx)
	if err != nil {
		return err
	}
	x, ok := s.(shelf)
	if !ok {
		return errors.Join(fmt.Errorf("archive: %s cannot be removed", l.Name), s.Close())
	}
	isOurs := regexp.MustCompile(ours).MatchString
	var names []string
	for o, err := range x.list(ctx) {
		if err != nil {
			return errors.Join(err, s.Close())
		}
		switch {
		case !isOurs(o.name):
		case isManifest(o.name):
			names = slices.Insert(names, 0, o.name)
		default:
			names = append(names, o.name)
		}
	}
	for _, n := range names {
		if err := x.remove(ctx, n); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return x.removed()
}

// ours matches the names of objects of a backup, encrypted or not, and of files that are being written.
const ours = `^(manifest\.json|manifest\.sha256|definitions\.json|queues/[0-9]{6,}/[0-9]{6,}\.blocks)(\.age)?(\.tmp)?$`

// isManifest reports whether an object is a manifest, with which a backup is complete.
func isManifest(name string) bool {
	return name == manifestName || name == manifestName+encryptedSuffix
}

// lister is a Store of which objects can be listed. Only one goroutine uses it.
type lister interface {
	// list yields all objects, in no order. After an error it ends.
	list(ctx context.Context) iter.Seq2[listed, error]
}

// shelf is a Store of which objects can also be removed one by one.
type shelf interface {
	lister
	// remove removes an object; one that is not there is no error.
	remove(ctx context.Context, name string) error
	// removed ends the use of the store after objects were removed.
	removed() error
}

// listed is an object as a store lists it.
type listed struct {
	name    string
	changed time.Time
}

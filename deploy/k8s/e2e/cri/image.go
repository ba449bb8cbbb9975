//go:build linux

package cri

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Image is what a container's root is made of, and what it runs when its manifest says nothing else.
type Image struct {
	// Files maps paths in the image to files of this machine, which are copied: what happens to them
	// later changes no container.
	Files map[string]string
	// Entrypoint is the program and its first arguments; Cmd are the arguments if the manifest has none.
	Entrypoint, Cmd []string
	// Env are variables NAME=VALUE, which those of the manifest override.
	Env []string
	// User is the number of the user and the group of its processes; 0 is root.
	User int64
}

// Images are the images that nodes have, by reference as in a manifest, with tag. Safe for concurrent use.
type Images struct {
	dir string

	mu     sync.Mutex
	byName map[string]*stored
}

// stored is an image that is unpacked.
type stored struct {
	Image
	name  string
	id    string // "sha256:" and the hash of its files
	root  string
	bytes uint64
}

// NewImages returns an empty set that unpacks images below a directory.
func NewImages(dir string) *Images { return &Images{dir: dir, byName: map[string]*stored{}} }

// Put unpacks an image and gives it a name such as quorate/quorate:dev. Running containers keep the
// image that they were started with.
func (s *Images) Put(name string, image Image) error {
	hash := sha256.New()
	unpacked, err := os.MkdirTemp(s.dir, "image-")
	if err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	im := &stored{Image: image, name: name, root: unpacked}
	errs := []error{os.Chmod(unpacked, 0o755)} // other users run what is in it
	for _, to := range slices.Sorted(maps.Keys(image.Files)) {
		_, _ = io.WriteString(hash, to+"\x00") // a hash takes everything
		n, err := unpack(image.Files[to], filepath.Join(unpacked, to), hash)
		im.bytes += uint64(n)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	_, _ = fmt.Fprintf(hash, "%q %q %q %d", image.Entrypoint, image.Cmd, image.Env, image.User) // a hash takes everything
	im.id = fmt.Sprintf("sha256:%x", hash.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name] = im
	return nil
}

// unpack copies a file with its mode, and feeds it to a hash.
func unpack(from, to string, hash io.Writer) (int64, error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close() //nolint:errcheck // only read
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return 0, err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.MultiWriter(out, hash), in)
	return n, errors.Join(err, out.Close())
}

// get finds an image by name or id, or returns nil.
func (s *Images) get(ref string) *stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	if im := s.byName[ref]; im != nil {
		return im
	}
	for _, im := range s.byName {
		if im.id == ref {
			return im
		}
	}
	return nil
}

// all returns the images in order of their names.
func (s *Images) all() []*stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*stored
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		all = append(all, s.byName[name])
	}
	return all
}

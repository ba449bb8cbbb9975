package upgrade

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/internal/gobuild"
)

// Old is a build of an earlier version.
type Old struct {
	commit string
	// Reads is the newest version that it reads.
	Reads uint32
	// bare means that the program is a node without the subcommand.
	bare bool
	// refused is what it, or its peers, report about a store of a newer version.
	refused string
}

// First is the first build with an upgrade at all.
func First() Old {
	return Old{"d22c56838bb80cfa51e597da5823b3136f491bcc", 1, true, "format version 4, this build reads version 3"}
}

// Last is the last build before the newest version.
func Last() Old {
	return Old{"421f17329f14259be108fe819a63981ab2c7a03a", 6, false, "reads version 6 of stored state"}
}

// build makes a node's program from the sources in a directory. The test's own timeout bounds it.
func build(t *testing.T, sources, binary string) string {
	t.Helper()
	if err := gobuild.Program(t.Context(), sources, "./cmd/node", binary); err != nil {
		t.Fatal(err)
	}
	return binary
}

// Build returns the program of the older commit, or skips the test where that is not. It
// never changes, so it is kept beside the tools that are built once.
func (o Old) Build(t *testing.T, root string) string {
	t.Helper()
	kept := filepath.Join(root, "bin", "node-"+o.commit[:12])
	if _, err := os.Stat(kept); err != nil {
		built := build(t, o.sources(t, root), kept+".new")
		if err := os.Rename(built, kept); err != nil {
			t.Fatal(err)
		}
	}
	if !o.bare {
		return kept
	}
	wrapper := filepath.Join(t.TempDir(), "quorate")
	if err := os.WriteFile(wrapper, fmt.Appendf(nil, "#!/bin/sh\nshift\nexec %q \"$@\"\n", kept), 0o700); err != nil {
		t.Fatal(err)
	}
	return wrapper
}

// sources unpacks the older commit, or skips the test where it is not.
func (o Old) sources(t *testing.T, root string) string {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", "archive", "--format=tar", o.commit)
	git.Dir = root
	var faults bytes.Buffer
	git.Stderr = &faults
	archive, err := git.Output()
	if err != nil {
		t.Skipf("this needs commit %s of the repository, which a shallow clone lacks: git archive: %v: %s", o.commit[:12], err, faults.String())
	}
	dir := t.TempDir()
	if err := unpack(archive, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// unpack writes the files of an archive. None of them is a link, nor one to be run.
func unpack(archive []byte, dir string) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name)) // this repository's own names
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o750)
		}
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil {
			return err
		}
	}
}

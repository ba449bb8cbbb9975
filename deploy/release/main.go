// Command release describes binaries that were built for a release: SHA256SUMS for all files of a
// directory, and provenance.intoto.json, an in-toto statement with a SLSA provenance. The
// provenance has the commit, Go version and flags of the build. It depends on neither the time nor
// the machine, so another build of the commit gives the same bytes. It is not signed.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Names of the files that the command writes.
const (
	sumsFile       = "SHA256SUMS"
	provenanceFile = "provenance.intoto.json"
)

// main exits with 1 on any error.
func main() {
	dir := flag.String("dir", "", "directory with the files of the release")
	version := flag.String("version", "", "version of the release; the suffix -dirty means uncommitted changes")
	commit := flag.String("commit", "", "commit that the binaries were built from")
	flags := flag.String("flags", "", "flags of go build; the binaries do not record linker flags")
	dirty := flag.Bool("dirty", false, "allow binaries from a tree with uncommitted changes, to try it out")
	flag.Parse()
	if err := release(*dir, source{*version, *commit, strings.TrimSpace(*flags)}, *dirty); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// source is the source that the binaries were built from.
type source struct{ version, commit, flags string }

func (s *source) modified() bool { return strings.HasSuffix(s.version, "-dirty") }

// release writes the provenance first and the checksums last, so that the sums cover the provenance
// too.
func release(dir string, of source, dirty bool) error {
	switch {
	case dir == "" || of.version == "" || of.commit == "":
		return fmt.Errorf("-dir is %q, -version %q and -commit %q: set all of them, -commit to the git commit", dir, of.version, of.commit)
	case of.modified() && !dirty:
		return fmt.Errorf("version %s has uncommitted changes: commit them, or try it out with -dirty", of.version)
	}
	files, err := filesOf(dir)
	if err != nil {
		return err
	}
	var built []binary
	for _, f := range files {
		b, is, err := readBinary(filepath.Join(dir, f.name), f)
		if err != nil {
			return err
		}
		if is {
			built = append(built, b)
		}
	}
	text, err := statement(built, &of)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, provenanceFile), text, 0o644); err != nil {
		return err
	}
	if files, err = filesOf(dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), sums(files), 0o644)
}

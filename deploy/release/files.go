package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// file is a file of the release with the SHA-256 of its bytes.
type file struct{ name, sum string }

// filesOf returns the files of a directory by name, without the file of checksums.
func filesOf(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == sumsFile {
			continue
		}
		sum, err := sumOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, file{e.Name(), sum})
	}
	return out, nil
}

// sumOf returns the SHA-256 of a file in hexadecimal. It reads the file piece by piece.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sums is the list that sha256sum -c reads.
func sums(files []file) []byte {
	var b bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&b, "%s  %s\n", f.sum, f.name)
	}
	return b.Bytes()
}

// binary is a program with its build information.
type binary struct {
	file
	goVersion, path string
	settings        []setting
}

// setting is one setting of a build, as `go version -m` prints it.
type setting struct{ key, value string }

// readBinary reads a Go program's build information; false: the file is not a Go program.
func readBinary(path string, f file) (binary, bool, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		if isOther(f.name) {
			return binary{}, false, nil
		}
		return binary{}, false, fmt.Errorf("%s: %w", f.name, err)
	}
	b := binary{file: f, goVersion: info.GoVersion, path: info.Path}
	for _, s := range info.Settings {
		b.settings = append(b.settings, setting{s.Key, s.Value})
	}
	return b, true, nil
}

// isOther reports whether a file of the release is not a program.
func isOther(name string) bool {
	switch filepath.Ext(name) {
	case ".json", ".txt", ".md", ".deb", ".rpm", ".tar":
		return true
	}
	return false
}

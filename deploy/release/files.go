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

// filesOf returns the files of a directory by name, but not the sums.
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

// sumOf returns the SHA-256 of a file in hexadecimal, reading it piece by piece.
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

// binary is a program with what it says of its build.
type binary struct {
	file
	goVersion, path string
	settings        []setting
}

// setting is one setting of a build, as `go version -m` prints it.
type setting struct{ key, value string }

// readBinary reads what a program of Go says of its build; false: the file is none.
func readBinary(path string, f file) (binary, bool, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		if isText(f.name) {
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

// isText tells the files of a release that are no programs.
func isText(name string) bool {
	switch filepath.Ext(name) {
	case ".json", ".txt", ".md":
		return true
	}
	return false
}

// Package quorate has which build of Quorate a program is. All programs of the project show the same; what nodes can read
// of each other is not decided by it but by the versions of stored state (catalog.Version).
package quorate

import (
	_ "embed"
	"runtime"
	"runtime/debug"
	"strings"
)

//go:embed VERSION
var number string

// commit is set by the linker: the short hash, with -dirty behind it if the tree had changes.
var commit string //nolint:gochecknoglobals // the linker can set nothing else

// shortHash is how much of a hash is shown.
const shortHash = 7

// Version returns the semantic version of this build: the number in the file VERSION, and the commit as build metadata if it
// is known, as in 0.9.0+7b14c6e.
func Version() string {
	v := strings.TrimSpace(number)
	if c := Commit(); c != "" {
		v += "+" + c
	}
	return v
}

// Commit returns the commit of this build, with -dirty behind it if there were changes; "" if it is unknown, as in tests.
// What the linker was given goes before what the go command has noted.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if commit != "" || !ok {
		return commit
	}
	return noted(info.Settings)
}

// noted finds the commit in what the go command notes of a build.
func noted(settings []debug.BuildSetting) string {
	var hash, dirty string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			hash = s.Value[:min(len(s.Value), shortHash)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if hash == "" {
		return ""
	}
	return hash + dirty
}

// About returns what a program's --version prints: its name, the version, the commit and the version of Go.
func About(program string) string {
	c := Commit()
	if c == "" {
		c = "unknown"
	}
	return program + " " + Version() + " (commit " + c + ", " + runtime.Version() + ")"
}

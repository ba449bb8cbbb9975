// Package definitions reads and writes the JSON document that holds everything of a cluster except
// messages: users, vhosts, permissions, parameters, policies, queues, exchanges and bindings, under
// the names that RabbitMQ gives them (VH-9, ST-4).
//
// Parse checks the form of a whole document and returns all faults at once, each with its
// JSON path; Plan returns what an import would do, by trying each object on a copy of the catalog; Append writes what
// a catalog holds. The package only computes; all functions may be called concurrently.
package definitions

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/catalog"
)

// Limits of a document.
const (
	// MaxBytes bounds a document, in bytes.
	MaxBytes = 128 << 20
	// MaxDepth bounds the nesting of lists and objects.
	MaxDepth = 40
	// maxMembers bounds the members of one object.
	maxMembers = 10_000
	// maxFaults bounds the faults that an error names; it counts the rest.
	maxFaults = 50
)

// The formats of a document, as RabbitMQ names them.
const (
	// FormatCluster is a document of all vhosts.
	FormatCluster = "cluster"
	// FormatVHost is a document of one vhost, whose objects name none.
	FormatVHost = "single_virtual_host"
)

// Kind is a kind of object.
type Kind uint8

// The kinds, in the order in which an import makes them: later ones may need earlier ones, and
// queues must find their policies in force.
const (
	KindVHost Kind = iota
	KindVHostLimits
	KindUser
	KindGlobalParameter
	KindParameter
	KindPolicy
	KindExchange
	KindQueue
	KindBinding
	KindPermission
	KindTopicPermission

	// KindCount is the number of kinds.
	KindCount
)

// String returns the kind's name, such as "topic permission".
func (k Kind) String() string {
	names := [...]string{
		"vhost", "vhost limits", "user", "global parameter", "parameter", "policy", "exchange", "queue", "binding",
		"permission", "topic permission",
	}
	if int(k) >= len(names) {
		return "kind " + strconv.Itoa(int(k))
	}
	return names[k]
}

// Object is one entry of a document.
type Object struct {
	Kind Kind
	Path string // in the document, such as $.queues[3]
	// VHost is empty for users, vhosts and global parameters.
	VHost, Name string
	// Command makes the object. For a queue it lacks the members, which the importer chooses.
	Command catalog.Command
	// Password is a user's clear-text password where there is no hash; the importer hashes it.
	Password string
	// skip is why an import passes over the object.
	skip string
}

// Document is a well-formed document.
type Document struct {
	Format string // FormatCluster or FormatVHost
	// Objects are sorted by kind; within a kind they keep the order of the document.
	Objects []Object
}

// Has reports whether the document has an object of a kind.
func (d *Document) Has(k Kind) bool {
	for i := range d.Objects {
		if d.Objects[i].Kind == k {
			return true
		}
	}
	return false
}

// DeclareBy sets a user as the declarer of the queues for which the document names none (VH-17).
func (d *Document) DeclareBy(user string) {
	for i := range d.Objects {
		if c, is := d.Objects[i].Command.(*catalog.DeclareQueue); is && c.DeclaredBy == "" {
			c.DeclaredBy = user
		}
	}
}

// Fault is one thing that is wrong with a document.
type Fault struct{ Path, Reason string }

// Faults is the error of a document that cannot be used at all.
type Faults struct {
	List  []Fault // the first ones
	Total int
}

// Error returns the faults on one line.
func (f *Faults) Error() string {
	var b strings.Builder
	for i, x := range f.List {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(x.Path + " " + x.Reason)
	}
	if more := f.Total - len(f.List); more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

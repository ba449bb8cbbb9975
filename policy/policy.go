// Package policy says what is in force for a queue: arguments, policies and operator policies, merged
// by the table of package argument, give its settings, from which follows what the queue's machine is
// configured with and how many members it has. It checks what policies give and what queues are
// declared with.
//
// All is computed from a view of the catalog; Matcher remembers what it found.
package policy

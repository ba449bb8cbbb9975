// Package attack has only tests: of what unauthenticated clients can do to real nodes, and of what
// that costs the nodes, while a well-behaved client keeps working.
package attack

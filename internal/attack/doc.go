// Package attack has tests alone: what who has not logged in does to real nodes, and what it costs
// them, while a client that behaves well goes on.
package attack

// Package history holds what the clients of a cluster under test saw, in the order in which
// they saw it, and what was done to the cluster meanwhile. It is all that a checker gets: the right outcome of a
// message follows from the events alone.
package history

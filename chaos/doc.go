// Package chaos runs clusters of node processes on this machine. The packages below it hit a
// cluster while clients work with it, and judge what they saw:
//
//	target    what a cluster can have done to it; target/local drives processes of this machine,
//	          target/netns such with networks and disks of their own
//	fault     kinds of faults, and schedules that a seed makes of them
//	workload  what clients do meanwhile, and record
//	history   the record
//	run       workloads and faults at the same time
//	check     whether a history keeps the guarantees
package chaos

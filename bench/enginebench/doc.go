// Package enginebench measures the replication engine as a node runs it: three members in one
// process, each node with its shared log, its links over loopback TCP and files on a real disk. It
// has only benchmarks; `make bench-engine` runs them.
//
// Compared variants take turns within one run, so that other load on the machine affects all of
// them alike. The reports are medians.
package enginebench

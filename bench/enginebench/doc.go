// Package enginebench measures the replication engine as a node runs it: three members
// in one process, each node with its shared log, its links over loopback TCP and files
// on a real disk. There is nothing but benchmarks in it; `make bench-engine` runs them.
//
// What is compared takes turns within one run, so that what else the machine does hits
// all alike, and medians are reported.
package enginebench

// Package policy computes the settings in force for a queue. It merges the queue's arguments, its
// policy and its operator policy by the table of package argument. The settings give the
// configuration of the queue's machine and its number of members. The package also checks policies
// and declarations of queues.
//
// Everything is computed from a view of the catalog; a Matcher caches its results.
package policy

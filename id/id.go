// Package id holds the names by which every layer calls nodes, groups and queues.
// It is a leaf: it imports nothing of the project and computes only.
package id

import "strconv"

// NodeID is the stable name of a node: on Kubernetes the pod's name. It survives
// restarts and changes of address, and it is the node's server id in every Raft
// configuration.
type NodeID string

// Epoch counts the incarnations of a node: it grows at every start of the process
// and is never used twice by the same node.
type Epoch uint64

// StoreID names one store for ever: the life of one data directory, by 32 hexadecimal
// digits taken by chance. A node whose directory is lost comes back with another one. ""
// stands for a store of a build that knew no such names.
type StoreID string

// GroupID names one Raft group for ever; a group's id is never used again.
type GroupID uint64

// QueueUID names one incarnation of a queue for ever: a queue that is deleted
// and declared again gets a new one. The queue's Raft group has the same number.
type QueueUID uint64

// CatalogGroup is the group of the catalog. Queue groups start at FirstQueueUID.
const (
	CatalogGroup  GroupID  = 1
	FirstQueueUID QueueUID = 1024
)

// Group returns the Raft group that holds the queue.
func (u QueueUID) Group() GroupID { return GroupID(u) }

// String returns the form used in logs, metrics and file names, for example "q1024".
func (u QueueUID) String() string { return "q" + strconv.FormatUint(uint64(u), 10) }

// String returns the form used in logs, metrics and file names, for example "g1024".
func (g GroupID) String() string { return "g" + strconv.FormatUint(uint64(g), 10) }

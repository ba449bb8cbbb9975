package client

import "time"

// ClusterStatus is the cluster as one node sees it.
type ClusterStatus struct {
	Cluster string `api:"cluster"`
	// Node is the node that answered.
	Node          string        `api:"node"`
	CatalogLeader string        `api:"catalog_leader"`
	CatalogIndex  uint64        `api:"catalog_index"`
	Nodes         []ClusterNode `api:"nodes"`
	// FinalizedVersion is the version of stored state that all nodes must be able to read.
	FinalizedVersion uint32 `api:"finalized_version"`
	// Hindrance is why the answering node serves no clients at present; empty: it does.
	Hindrance string `api:"hindrance"`
	// ViewAge is the maximum age of its view of the catalog; nil: it was never confirmed.
	ViewAge *time.Duration `api:"view_age_ms"`
}

// ClusterNode is one node.
type ClusterNode struct {
	ID            string `api:"id"`
	Epoch         uint64 `api:"epoch"`
	ClientAddress string `api:"client_address"`
	Version       string `api:"version"`
	// Alive by gossip; with TLS between nodes only while there is a link, which needs a certificate.
	Alive bool `api:"alive"`
	// Connected to the answering node.
	Connected bool   `api:"connected"`
	Replicas  uint32 `api:"replicas"`
	Leaders   uint32 `api:"leaders"`
	// Disk is the state of the disk with the node's data directory, as last reported to the answering
	// node; nil: unknown.
	Disk *DiskStatus `api:"disk"`
	// Draining nodes lead nothing that another node can lead, and accept no new work. Only with
	// details.
	Draining bool `api:"draining"`
	// Start is the progress of the node's start; only with details, from nodes that answer.
	Start *StartProgress `api:"start"`
	// Counters of the node as gateway since its start, by name, such as published and
	// unroutable_dropped; only with details, from nodes that answer.
	Counters map[string]uint64 `api:"counters"`
	// ReadsVersion is the newest version of stored state that the node's build reads; only with
	// details, from nodes that answer.
	ReadsVersion uint32 `api:"reads_version"`
	// Clock is the state of the node's wall clock, as measured by the answering node; nil: not
	// measured recently.
	Clock *ClockStatus `api:"clock"`
	// Refused is why the answering node refuses this one; empty: it does not.
	Refused string `api:"refused"`
	// LostMembers is how many members of queues on the node have lost what they had stored and are not rebuilt yet;
	// only with details, from nodes that answer.
	LostMembers uint32 `api:"lost_members"`
}

// ClockStatus is the state of a node's wall clock (TTL-8).
type ClockStatus struct {
	// Offset is how far it is ahead of the time of the cluster, in whole microseconds.
	Offset time.Duration `api:"offset_us"`
	// Error is the possible error of Offset.
	Error time.Duration `api:"error_us"`
	// Grade is how certain the node is of the time of the cluster: confirmed by a majority of the wall
	// clocks, presumed without one, or unsettled.
	Grade string `api:"grade"`
	// Off reports that the offset is above timeouts.clock_skew.
	Off bool `api:"off"`
}

// DiskStatus is the state of a node's disk.
type DiskStatus struct {
	// Pressure is none, low or floor.
	Pressure  string `api:"pressure"`
	Path      string `api:"path"`
	FreeBytes uint64 `api:"free_bytes"`
	// LowBytes and FloorBytes are the limits of FreeBytes in force.
	LowBytes   uint64 `api:"low_bytes"`
	FloorBytes uint64 `api:"floor_bytes"`
	// Hangs is how long a write has been under way, if that is too long; 0: no write hangs.
	Hangs time.Duration `api:"hangs_ms"`
	// Stopped is the number of members that wait for room.
	Stopped uint32 `api:"stopped"`
	// Refused and Moved count publishes refused, and leaders moved, for lack of room since the node's
	// start.
	Refused uint64 `api:"refused"`
	Moved   uint64 `api:"moved"`
}

// StartProgress is the progress of a node's start.
type StartProgress struct {
	// Phase is "opening the log", "joining the cluster", "opening groups", "electing
	// leaders" or "started".
	Phase string `api:"phase"`
	Done  uint64 `api:"done"`
	// Total is 0 while it is unknown.
	Total uint64 `api:"total"`
	Unit  string `api:"unit"`
}

// VersionFinalized is the result of FinalizeVersion.
type VersionFinalized struct {
	Before uint32 `api:"before"`
	// Finalized is the version finalised now; for a dry run, the one that would be.
	Finalized uint32 `api:"finalized"`
	// Held are the nodes that hold it back. Only a dry run returns them; other calls fail.
	Held []HeldVersion `api:"held"`
}

// HeldVersion is a node that keeps a newer version from being finalised.
type HeldVersion struct {
	Node string `api:"node"`
	// Build and ReadsVersion are empty and 0 if the node does not answer.
	Build        string `api:"build"`
	ReadsVersion uint32 `api:"reads_version"`
	Reason       string `api:"reason"`
}

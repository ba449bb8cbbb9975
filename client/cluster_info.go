package client

import "time"

// ClusterStatus shows the cluster as one node sees it.
type ClusterStatus struct {
	Cluster string `api:"cluster"`
	// Node is the one that answers.
	Node          string        `api:"node"`
	CatalogLeader string        `api:"catalog_leader"`
	CatalogIndex  uint64        `api:"catalog_index"`
	Nodes         []ClusterNode `api:"nodes"`
	// FinalizedVersion is the version of stored state that all nodes must be able to read.
	FinalizedVersion uint32 `api:"finalized_version"`
	// Hindrance is why the node that answers serves no client at present; empty: it does.
	Hindrance string `api:"hindrance"`
	// ViewAge is how old its view of the catalog may be; nil: it was never confirmed.
	ViewAge *time.Duration `api:"view_age_ms"`
}

// ClusterNode is one node.
type ClusterNode struct {
	ID            string `api:"id"`
	Epoch         uint64 `api:"epoch"`
	ClientAddress string `api:"client_address"`
	Version       string `api:"version"`
	// Alive by gossip; with TLS between nodes only while there is a link, which takes a certificate.
	Alive bool `api:"alive"`
	// Connected to the node that answers.
	Connected bool   `api:"connected"`
	Replicas  uint32 `api:"replicas"`
	Leaders   uint32 `api:"leaders"`
	// Disk is how the disk fares that the node's data directory is on, as the node has told
	// the one that answers; nil: it has not.
	Disk *DiskStatus `api:"disk"`
	// Draining nodes lead nothing that another can lead, and take no new work. It is told
	// with details.
	Draining bool `api:"draining"`
	// Start is how far the node's start is; told with details by nodes that answer.
	Start *StartProgress `api:"start"`
	// Counters of the node as gateway since its start, by name, such as published and
	// unroutable_dropped; told with details by nodes that answer.
	Counters map[string]uint64 `api:"counters"`
	// ReadsVersion is the newest version of stored state that the node's build reads; told
	// with details by nodes that answer.
	ReadsVersion uint32 `api:"reads_version"`
	// Clock is how the node's wall clock is, as the node that answers has measured it; nil: it
	// has not, or not lately.
	Clock *ClockStatus `api:"clock"`
	// Refused says why the node that answers refuses this one; empty: it does not.
	Refused string `api:"refused"`
}

// ClockStatus is how a node's wall clock is (TTL-8).
type ClockStatus struct {
	// Offset is by how much it is ahead of the time of the cluster, in whole microseconds.
	Offset time.Duration `api:"offset_us"`
	// Error is how far off Offset may be.
	Error time.Duration `api:"error_us"`
	// Grade says how sure the node is of the time of the cluster: confirmed by a majority of the
	// wall clocks, presumed without one, or unsettled.
	Grade string `api:"grade"`
	// Off reports that the offset is above timeouts.clock_skew.
	Off bool `api:"off"`
}

// DiskStatus is how a node's disk fares.
type DiskStatus struct {
	// Pressure is none, low or floor.
	Pressure  string `api:"pressure"`
	Path      string `api:"path"`
	FreeBytes uint64 `api:"free_bytes"`
	// LowBytes and FloorBytes are the limits of FreeBytes in force.
	LowBytes   uint64 `api:"low_bytes"`
	FloorBytes uint64 `api:"floor_bytes"`
	// Hangs is for how long a write has been under way, if that is too long; 0: it is not.
	Hangs time.Duration `api:"hangs_ms"`
	// Stopped members wait for room.
	Stopped uint32 `api:"stopped"`
	// Refused publishes and moved leaders for want of room, since the node's start.
	Refused uint64 `api:"refused"`
	Moved   uint64 `api:"moved"`
}

// StartProgress is how far a node's start is.
type StartProgress struct {
	// Phase is "opening the log", "joining the cluster", "opening groups", "electing
	// leaders" or "started".
	Phase string `api:"phase"`
	Done  uint64 `api:"done"`
	// Total is 0 while it is not known.
	Total uint64 `api:"total"`
	Unit  string `api:"unit"`
	// Disk is how the disk fares that the node's data directory is on; nil: it is not told.
	Disk *DiskStatus `api:"disk"`
}

// VersionFinalized tells what is finalised, and what was before.
type VersionFinalized struct {
	Before uint32 `api:"before"`
	// Finalized is the one that is finalised now; of a dry run, that would be.
	Finalized uint32 `api:"finalized"`
	// Held are the nodes that hold it back; only a dry run has them, others fail.
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

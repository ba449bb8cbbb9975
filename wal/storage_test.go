package wal_test

import (
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// A group's log is what raftfsm stores a group in.
var (
	_ raftfsm.Storage        = (*wal.GroupLog)(nil)
	_ raft.MonotonicLogStore = (*wal.GroupLog)(nil)
)

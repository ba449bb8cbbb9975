package raftfsm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"runtime/debug"

	"github.com/hashicorp/raft"
)

// Checksums of what is stored in bolt, which has none of its own. They are where a build without them does not look,
// so that each build reads what the other has written. What such a build wrote last is not covered.

const (
	numberBytes = 8
	logsBucket  = "logs"
	confBucket  = "conf"
)

// sealNumber returns a number as raft-boltdb stores it, with its checksum behind.
func sealNumber(key string, v uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, v)
	return binary.LittleEndian.AppendUint32(b, sumOf(key, b))
}

func sumOf(key string, b []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli()), castagnoli(), b)
}

// openNumber reads what sealNumber has returned, or a number alone.
func openNumber(key string, b []byte) (uint64, error) {
	if len(b) != numberBytes && len(b) != numberBytes+sumBytes {
		return 0, corruptf("%s has %d bytes", key, len(b))
	}
	if len(b) > numberBytes && binary.LittleEndian.Uint32(b[numberBytes:]) != sumOf(key, b[:numberBytes]) {
		return 0, corruptf("%s has a wrong checksum", key)
	}
	return binary.BigEndian.Uint64(b), nil
}

// A vote is its term, its candidate and, behind a zero that no node's id has, its checksum.
// A build that knows of no checksum takes all of it for the candidate: it gives no vote in
// that term, as it has given one.

// sealVote puts a zero and the checksum behind the candidate.
func sealVote(term uint64, candidate []byte) []byte {
	b := append(binary.LittleEndian.AppendUint64(nil, term), candidate...)
	sum := sumOf(keyVote, b)
	return binary.LittleEndian.AppendUint32(append(b, 0), sum)
}

// openVote takes votes without a checksum too, which older builds have written.
func openVote(b []byte) (term uint64, candidate []byte, err error) {
	if len(b) < numberBytes {
		return 0, nil, corruptf("a vote of %d bytes", len(b))
	}
	if end := len(b) - sumBytes - 1; end >= numberBytes && b[end] == 0 {
		if binary.LittleEndian.Uint32(b[end+1:]) != sumOf(keyVote, b[:end]) {
			return 0, nil, corruptf("the vote has a wrong checksum")
		}
		b = b[:end]
	}
	return binary.LittleEndian.Uint64(b), b[numberBytes:], nil
}

// entrySum is the checksum of an entry. It is stored in the field for extensions, which raft does not use here.
func entrySum(l *raft.Log) []byte {
	head := binary.LittleEndian.AppendUint64(nil, l.Index)
	head = binary.LittleEndian.AppendUint64(head, l.Term)
	head = append(head, byte(l.Type))
	return binary.LittleEndian.AppendUint32(nil, crc32.Update(crc32.Checksum(head, castagnoli()), castagnoli(), l.Data))
}

// sealEntries returns entries with their checksums.
func sealEntries(logs []*raft.Log) []*raft.Log {
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		c := *l
		c.Extensions = entrySum(l)
		sealed[i] = &c
	}
	return sealed
}

// openEntry checks an entry that was stored at an index and takes its checksum away.
func openEntry(index uint64, l *raft.Log) error {
	if l.Index != index {
		return corruptf("it says that it is %d", l.Index)
	}
	if len(l.Extensions) > 0 && !bytes.Equal(l.Extensions, entrySum(l)) {
		return corruptf("it has a wrong checksum")
	}
	l.Extensions = nil
	return nil
}

// checkStored reads the tree of a group's bolt file: nothing must be there that the storage
// does not write, and no entry be missing inside the log. What entries hold is checked when
// they are read.
func checkStored(path string) error {
	var first, next uint64
	return checkBolt(path, func(bucket, key, value []byte) error {
		switch {
		case string(bucket) == confBucket:
			return checkConf(string(key), value, &first)
		case string(bucket) != logsBucket:
			return corruptf("bucket %q", bucket)
		case len(key) != numberBytes:
			return corruptf("a key of %d bytes", len(key))
		}
		index := binary.BigEndian.Uint64(key)
		if index < first {
			return nil
		}
		if next == 0 {
			next = cmp.Or(first, index)
		}
		if index != next {
			return corruptf("entry %d is missing in the middle of the log", next)
		}
		next = index + 1
		return nil
	})
}

// checkConf refuses keys that this build does not write.
func checkConf(key string, value []byte, first *uint64) (err error) {
	switch key {
	case keyTerm:
		_, err = openNumber(key, value)
	case keyFirst:
		*first, err = openNumber(key, value)
	case keyVote:
		_, _, err = openVote(value)
	default:
		err = corruptf("key %q", key)
	}
	return err
}

// mapped runs what reads or writes pages of a bolt file. Those that make no sense make bolt
// panic, and those that cannot be read are a fault of the memory, which ends the process.
func mapped(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = corruptf("%v", p)
		}
	}()
	return f()
}

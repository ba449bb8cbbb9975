package vitals

import (
	"bytes"
	"os"
	"strconv"
)

// Memory is what a process has of the memory, in bytes.
type Memory struct {
	Resident uint64 // in physical memory; 0: not known
	Heap     uint64 // objects, garbage too
	Bodies   uint64 // of Heap: bodies of messages that are kept to save reads
	Tail     uint64 // of Heap: the newest entries of the log
	Stacks   uint64
	Runtime  uint64 // what the Go runtime needs for itself
	Unused   uint64 // kept by the runtime for what comes
}

// Kept is what the runtime has of the operating system and has not given back.
func (m *Memory) Kept() uint64 { return m.Heap + m.Stacks + m.Runtime + m.Unused }

// Kept returns what the runtime has of the operating system now and has not given back, in bytes.
func Kept() uint64 { return memoryParts().Kept() }

// memoryParts measures all but the caches, which the caller knows.
func memoryParts() *Memory {
	const classes = "/memory/classes/"
	return &Memory{
		Resident: resident(),
		Heap:     sumOf(classes + "heap/objects:bytes"),
		Stacks:   sumOf(classes+"heap/stacks:bytes", classes+"os-stacks:bytes"),
		Runtime: sumOf(classes+"metadata/mcache/free:bytes", classes+"metadata/mcache/inuse:bytes", classes+"metadata/mspan/free:bytes",
			classes+"metadata/mspan/inuse:bytes", classes+"metadata/other:bytes", classes+"profiling/buckets:bytes", classes+"other:bytes"),
		Unused: sumOf(classes+"heap/free:bytes", classes+"heap/unused:bytes"),
	}
}

// pagesFile has the sizes of the process, in pages, on Linux.
const pagesFile = "/proc/self/statm"

// resident returns the bytes of the process in physical memory; 0: not known.
func resident() uint64 {
	text, err := os.ReadFile(pagesFile)
	sizes := bytes.Fields(text)
	if err != nil || len(sizes) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(string(sizes[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

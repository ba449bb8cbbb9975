package serve

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// containerPart is the part of a container's memory, in tenths, that becomes the limit of the Go
// runtime where GOMEMLIMIT is not set. The rest is for memory that the runtime does not count.
const containerPart = 9

// unlimitedMemory is more than any machine has; cgroup v1 reports such a value for no limit.
const unlimitedMemory = math.MaxInt64 / 2

// containerMemory returns the smallest memory limit of this process's control groups, version 1 or
// 2, and of their parents; 0 without one. It looks for files below root.
func containerMemory(root string) int64 {
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	least := int64(unlimitedMemory)
	for line := range strings.Lines(string(groups)) {
		field := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(field) < 3 {
			continue
		}
		switch {
		case field[1] == "":
			least = min(least, memoryAbove(filepath.Join(root, "sys/fs/cgroup"), field[2], "memory.max"))
		case strings.Contains(","+field[1]+",", ",memory,"):
			least = min(least, memoryAbove(filepath.Join(root, "sys/fs/cgroup/memory"), field[2], "memory.limit_in_bytes"))
		}
	}
	if least == unlimitedMemory {
		return 0
	}
	return least
}

// memoryAbove returns the smallest limit of a group and its parents. In a container the group's own
// path may be missing, and the root is the container's own group.
func memoryAbove(mount, path, file string) int64 {
	least := int64(unlimitedMemory)
	for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
		if b, err := os.ReadFile(filepath.Join(mount, path, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				least = min(least, n) // "max" is not a number
			}
		}
		if path == "/" {
			return least
		}
	}
}

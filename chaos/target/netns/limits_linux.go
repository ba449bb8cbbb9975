package netns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuRoot is where the controller of version 1 of control groups is; version 2 is not used.
const cpuRoot = "/sys/fs/cgroup/cpu"

// cpuPeriod is the span over which a share is given: short, so that a bound slows down evenly.
const cpuPeriod = 50 * time.Millisecond

// errNoLimits is why processors cannot be taken away.
var errNoLimits = errors.New("netns: bounding processors needs version 1 of control groups, with the controller cpu at " + cpuRoot)

// memoryRoot is where the controller of memory is, of version 1 too.
const memoryRoot = "/sys/fs/cgroup/memory"

// A node that is squeezed may have spareBytes more than it uses. One that grows meanwhile, or of which the kernel
// cannot take back enough, gets more, up to mostSpare.
const (
	spareBytes = 1 << 20
	mostSpare  = 256 << 20
)

// errNoMemory is why memory cannot be taken away.
var errNoMemory = errors.New("netns: bounding memory needs version 1 of control groups, with the controller memory at " + memoryRoot)

// memoryGroup makes a control group, in which a node runs from its start on.
func memoryGroup(node string) (dir string, err error) {
	dir = filepath.Join(memoryRoot, fmt.Sprintf("quorate-chaos-%d-%s", os.Getpid(), node))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: %w", errNoMemory, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "memory.limit_in_bytes")); err != nil {
		return "", errors.Join(errNoMemory, os.Remove(dir))
	}
	return dir, nil
}

// Squeeze implements target.Memory. What the kernel keeps of files counts as well, and is given back
// first.
func (c *Cluster) Squeeze(_ context.Context, node string) error {
	dir := c.memory[node]
	if dir == "" {
		return errNoMemory
	}
	for spare := int64(spareBytes); ; spare *= 2 {
		used, err := statOf(filepath.Join(dir, "memory.stat"), "rss")
		if err != nil {
			return err
		}
		if err = limitMemory(dir, used+spare); !errors.Is(err, syscall.EBUSY) || spare >= mostSpare {
			return err
		}
	}
}

// Release implements target.Memory.
func (c *Cluster) Release(_ context.Context, node string) error {
	return limitMemory(c.memory[node], -1)
}

func limitMemory(dir string, bytes int64) error {
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.FormatInt(bytes, 10)), 0o644); err != nil {
		return fmt.Errorf("netns: %w", err)
	}
	return nil
}

// Squeezed implements target.Memory.
func (c *Cluster) Squeezed(_ context.Context, node string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(c.memory[node], "memory.failcnt"))
	if err != nil {
		return 0, fmt.Errorf("netns: %w", err)
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// cpuGroup makes a control group, in which a node runs from its start on.
func cpuGroup(node string) (dir string, err error) {
	if _, err := os.Stat(filepath.Join(cpuRoot, "cpu.cfs_quota_us")); err != nil {
		if _, err := os.Stat(filepath.Join(cpuRoot, "tasks")); err != nil {
			return "", errNoLimits
		}
	}
	dir = filepath.Join(cpuRoot, fmt.Sprintf("quorate-chaos-%d-%s", os.Getpid(), node))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: %w", errNoLimits, err)
	}
	return dir, nil
}

// CPU implements target.Limits.
func (c *Cluster) CPU(_ context.Context, node string, share float64) error {
	dir := c.groups[node]
	if dir == "" {
		return errNoLimits
	}
	quota := int64(-1)
	if share > 0 {
		quota = max(1000, int64(share*float64(cpuPeriod.Microseconds()))) // the kernel takes no less
	}
	for name, value := range map[string]int64{"cpu.cfs_period_us": cpuPeriod.Microseconds(), "cpu.cfs_quota_us": quota} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strconv.FormatInt(value, 10)), 0o644); err != nil {
			return fmt.Errorf("netns: %w", err)
		}
	}
	return nil
}

// Throttled implements target.Limits.
func (c *Cluster) Throttled(_ context.Context, node string) (time.Duration, error) {
	dir := c.groups[node]
	if dir == "" {
		return 0, errNoLimits
	}
	ns, err := statOf(filepath.Join(dir, "cpu.stat"), "throttled_time")
	return time.Duration(ns), err
}

// statOf returns a figure of a control group.
func statOf(file, name string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, fmt.Errorf("netns: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("netns: %s has no line %s", file, name)
}

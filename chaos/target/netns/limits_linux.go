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
	"time"
)

// cpuRoot is where the controller of version 1 of control groups is; version 2 is not used.
const cpuRoot = "/sys/fs/cgroup/cpu"

// cpuPeriod is the span over which a share is given: short, so that a bound slows down evenly.
const cpuPeriod = 50 * time.Millisecond

// errNoLimits is why processors cannot be taken away.
var errNoLimits = errors.New("netns: bounding processors needs version 1 of control groups, with the controller cpu at " + cpuRoot)

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
	f, err := os.Open(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return 0, fmt.Errorf("netns: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "throttled_time "); ok {
			ns, err := strconv.ParseInt(value, 10, 64)
			return time.Duration(ns), err
		}
	}
	return 0, fmt.Errorf("netns: %s does not tell throttled_time", f.Name())
}

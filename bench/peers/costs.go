package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// costs are what servers have used so far, and what this process, the client, has.
type costs struct {
	server, client time.Duration // processor time
	calls          int64         // reads and writes of the servers, of sockets and files alike
	waits          int64         // hand-overs: how often a thread of a server gave its processor up to wait
	heap           heap
}

// heap is what Go servers have allocated so far.
type heap struct{ bytes, objects float64 }

// allocator is a system whose servers say what they allocate.
type allocator interface {
	allocated(ctx context.Context) (heap, error)
}

// spent reads the costs so far.
func spent(ctx context.Context, s system) (costs, error) {
	var out costs
	var self syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	out.client = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	if a, can := s.(allocator); can {
		var e error
		out.heap, e = a.allocated(ctx)
		err = errors.Join(err, e)
	}
	roots := s.roots()
	var e error
	out.server, e = cpu(roots)
	err = errors.Join(err, e)
	for _, pid := range descendants(roots) {
		calls, e := callsOf(pid)
		waits, f := waitsOf(pid)
		if isRoot(roots, pid) {
			err = errors.Join(err, e, f)
		}
		out.calls, out.waits = out.calls+calls, out.waits+waits
	}
	return out, err
}

// callsOf returns how often a process has read and written, from /proc/PID/io.
func callsOf(pid int) (int64, error) {
	return sumOf(fmt.Sprintf("/proc/%d/io", pid), "syscr:", "syscw:")
}

// waitsOf returns how often the threads of a process have given up a processor by themselves. A thread that has ended is
// not in it; Go's threads seldom end.
func waitsOf(pid int) (int64, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err == nil && len(threads) == 0 {
		err = fmt.Errorf("process %d is gone", pid)
	}
	var out int64
	for _, t := range threads {
		n, e := sumOf(t, "voluntary_ctxt_switches:")
		if e != nil && !errors.Is(e, os.ErrNotExist) { // else the thread has just ended
			err = errors.Join(err, e)
		}
		out += n
	}
	return out, err
}

// sumOf adds up the numbers behind names at the beginning of lines of a file.
func sumOf(path string, names ...string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var out int64
	for _, name := range names {
		_, rest, found := strings.Cut("\n"+string(text), "\n"+name)
		line, _, _ := strings.Cut(rest, "\n")
		n, e := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if !found || e != nil {
			return 0, fmt.Errorf("%s: there is no number behind %q", path, name)
		}
		out += n
	}
	return out, nil
}

// Metrics of Go's runtime, as its Prometheus client names them.
const (
	metricBytes   = "go_memstats_alloc_bytes_total"
	metricObjects = "go_memstats_mallocs_total"
)

// scrape reads what a Go server has allocated from its metrics.
func scrape(ctx context.Context, url string) (out heap, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return out, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		to := map[string]*float64{metricBytes: &out.bytes, metricObjects: &out.objects}[name]
		if to == nil {
			continue
		}
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			return out, fmt.Errorf("%s: %s: %w", url, name, err)
		}
	}
	if err := lines.Err(); err != nil {
		return out, err
	}
	if out.bytes == 0 || out.objects == 0 {
		return out, fmt.Errorf("%s: status %s, without %s and %s", url, answer.Status, metricBytes, metricObjects)
	}
	return out, nil
}

// Costs are what a message has cost, on all servers together.
type Costs struct {
	ClientCPU   float64 `json:"client_cpu_seconds_per_million"`
	Calls       float64 `json:"reads_and_writes_per_message"`
	Waits       float64 `json:"hand_overs_per_message"`
	Bytes       float64 `json:"allocated_bytes_per_message"` // 0: the servers do not say
	Allocations float64 `json:"allocations_per_message"`     // 0: the servers do not say
}

// perMessage divides what was used between two readings.
func perMessage(before, after costs, messages float64) Costs {
	return Costs{
		ClientCPU:   (after.client - before.client).Seconds() * 1e6 / messages,
		Calls:       float64(after.calls-before.calls) / messages,
		Waits:       float64(after.waits-before.waits) / messages,
		Bytes:       (after.heap.bytes - before.heap.bytes) / messages,
		Allocations: (after.heap.objects - before.heap.objects) / messages,
	}
}

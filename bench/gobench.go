package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// results are the metrics of benchmarks by name and unit. Names lack the word Benchmark and the
// number of processors.
type results map[string]map[string]float64

// parse parses the output of `go test -bench` that ran on this many processors. It is strict: an
// unknown line, a repeated benchmark or unit, and output without a proper end are errors. A figure
// that is silently absent or wrong would be worse.
func parse(r io.Reader, processors int) (results, error) {
	out := results{}
	passed := false
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "Benchmark"):
			name, metrics, err := parseLine(line, processors)
			if err != nil {
				return nil, fmt.Errorf("line %d of the benchmarks' output: %w", n, err)
			}
			if _, twice := out[name]; twice {
				return nil, fmt.Errorf("line %d of the benchmarks' output: %s comes twice", n, name)
			}
			out[name] = metrics
		case line == "PASS":
			passed = true
		case line == "" || isFrame(line) || isLog(line):
		default:
			return nil, fmt.Errorf("line %d of the benchmarks' output: %q is neither a result nor go test's", n, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the benchmarks' output: %w", err)
	}
	if !passed {
		return nil, fmt.Errorf("the benchmarks' output of %d results does not say PASS", len(out))
	}
	return out, nil
}

// isFrame reports whether go test itself wrote the line, around the results.
func isFrame(line string) bool {
	for _, prefix := range []string{"goos: ", "goarch: ", "pkg: ", "cpu: ", "ok  \t"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// isLog reports whether a benchmark logged the line; go test shows such lines behind the result.
func isLog(line string) bool {
	return strings.HasPrefix(line, "--- BENCH: ") || strings.HasPrefix(line, "    ")
}

// parseLine parses one result: the name, the count, then pairs of a value and its unit.
func parseLine(line string, processors int) (string, map[string]float64, error) {
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 {
		return "", nil, fmt.Errorf("%q is not a name, a count and pairs of value and unit", line)
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	if processors > 1 {
		var ok bool
		if name, ok = strings.CutSuffix(name, "-"+strconv.Itoa(processors)); !ok {
			return "", nil, fmt.Errorf("%q did not run on %d processors", fields[0], processors)
		}
	}
	if count, err := strconv.ParseInt(fields[1], 10, 64); err != nil || count < 1 {
		return "", nil, fmt.Errorf("%s: %q is not a count of runs", name, fields[1])
	}
	metrics := make(map[string]float64, len(fields)/2-1)
	for i := 2; i < len(fields); i += 2 {
		unit := fields[i+1]
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return "", nil, fmt.Errorf("%s: %q is not a value of %s", name, fields[i], unit)
		}
		if _, twice := metrics[unit]; twice {
			return "", nil, fmt.Errorf("%s: %s comes twice", name, unit)
		}
		metrics[unit] = v
	}
	return name, metrics, nil
}

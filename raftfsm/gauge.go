package raftfsm

import "runtime"

// gauge is the function of raft by which each leader reads its oldest entry every ten
// seconds for a gauge of its age, in a goroutine of its own. With thousands of idle
// leaders these looks are what a node does most, and each may read from the disk. No
// setting turns it off.
const gauge = "github.com/hashicorp/raft.emitLogStoreMetrics"

// inGauge reports whether raft's gauge calls the guard's method that calls this.
func inGauge() bool {
	var at [8]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(3, at[:])])
	for {
		f, more := frames.Next()
		if f.Function == gauge {
			return true
		}
		if !more {
			return false
		}
	}
}

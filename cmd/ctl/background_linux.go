package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// lowerPriority sets the nice value of all threads that have a lower one. Linux has one for each thread, and a new
// thread inherits that of its creator, so it repeats until no thread is left. What cannot be changed stays.
func lowerPriority(nice int) {
	const nicest = 20 // the system call returns this less the nice value
	for again := true; again; {
		again = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			now, err := unix.Getpriority(unix.PRIO_PROCESS, id)
			if err == nil && nicest-now < nice && unix.Setpriority(unix.PRIO_PROCESS, id, nice) == nil {
				again = true
			}
		}
	}
}

package main

import "context"

// backgroundNice is the nice value of commands that work on backups for long, the same as that of the packages' timer.
// A processor that others want as well gives them a tenth of its time.
const backgroundNice = 10

// ownProcess is the key of a context whose process runs nothing but the command.
type ownProcess struct{}

// inBackground has a command that nobody waits for give way to what else runs on the machine, which may be nodes: they
// answer clients within a millisecond or two, and wait for as long for a processor that works on a part of a backup.
func inBackground(ctx context.Context) {
	if own, _ := ctx.Value(ownProcess{}).(bool); own {
		lowerPriority(backgroundNice)
	}
}

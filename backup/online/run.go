package online

import (
	"crypto/rand"
	"strings"
	"time"
)

// Resumable is how long a queue remembers at least which messages of a restore it has (quorumq.ProducerRetentionMs).
// A restore that runs longer than that after its beginning may store messages twice.
const Resumable = 24 * time.Hour

// runTime is the form of the time, in UTC, with which the name of a restore begins.
const runTime = "20060102T150405Z"

// NewRun returns a name, for Restore.Run, that no other restore has. It says when the restore began.
func NewRun(now time.Time) string { return now.UTC().Format(runTime) + "-" + rand.Text() }

// RunAge returns how long ago the restore of a name began, if its name has that time. Names of older builds do not,
// nor do names that a person has chosen, or whose time is in the future because a clock was set back.
func RunAge(run string, now time.Time) (age time.Duration, known bool) {
	at, _, named := strings.Cut(run, "-")
	began, err := time.Parse(runTime, at)
	age = now.Sub(began)
	if !named || err != nil || age < -clockTolerance {
		return 0, false
	}
	return age, true
}

// clockTolerance is how far apart the clocks of two machines that work on one restore may be.
const clockTolerance = 10 * time.Minute

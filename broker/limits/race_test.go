//go:build race

package limits

// raceDetector: allocations are not those of a normal build.
const raceDetector = true

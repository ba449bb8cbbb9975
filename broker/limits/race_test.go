//go:build race

package limits

// raceDetector: the race detector changes how much code allocates.
const raceDetector = true

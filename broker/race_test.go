//go:build race

package broker

// raceDetector: with it, a sync.Pool drops some of what it is given, at random.
const raceDetector = true

package replica

import "time"

// wakefulness is how many times the rest was doubled after which a queue hibernates. A wake costs an election, so a queue
// that was woken before it had hibernated for long has to rest for longer the next time: one that is used every few minutes
// stays awake. Its members remember that, each by itself, until their nodes stop. It only computes.
type wakefulness uint8

// mostWakeful bounds it. A queue that has hibernated for as long as the longest rest starts over when it wakes.
const mostWakeful wakefulness = 2

// next returns that of a queue which wakes after it has hibernated for so long; after is Config.HibernateAfter.
func (w wakefulness) next(slept, after time.Duration) wakefulness {
	if slept >= mostWakeful.rest(after) {
		return 0
	}
	return min(w+1, mostWakeful)
}

// rest returns how long the queue has to be idle before it hibernates.
func (w wakefulness) rest(after time.Duration) time.Duration { return after << w }

package grpcapi

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
)

// How fast a node reads from connections that have not logged in. A login needs less than freeBytes.
const (
	// freeBytes is how much is read from each such connection at once. Beyond that, ownBytesPerSec is read from it in
	// any case, so that health checks continue.
	freeBytes      = 64 << 10
	ownBytesPerSec = 4 << 10
	// restBytesPerSec is what all of them together may send beyond that, and restBytes is how much of it at once.
	restBytesPerSec = 4 << 20
	restBytes       = 1 << 20
	// refusedBytes is what a call counts, besides its own bytes, if it is refused because of its headers.
	refusedBytes = 4 << 10
	// firstReadBytes is how much of freeBytes is read at a time: the headers of some calls. These calls are answered
	// before more is read.
	firstReadBytes = 1 << 10
)

// A client that sends faster than the node reads never lets its reader wait. Without the following limits this reader
// would run until Go preempts it, after 10 ms. Also, while Go's scheduler always finds something to run, it looks for
// new data from the network only every 10 ms.
const (
	// yieldBytes is after how many bytes, read at once, the reader of a connection lets other goroutines run.
	yieldBytes = 16 << 10
	// restAfterBytes is after how many bytes that had been waiting the reader rests, and restTime is for how long at
	// least; Go's timers may take a millisecond.
	restAfterBytes = 512 << 10
	restTime       = 50 * time.Microsecond
	// gatherBytes is how much of large messages is copied between two rests.
	gatherBytes = 256 << 10
)

// allowance is a number of bytes that grows with time up to a limit. The zero value is at the limit. It may be
// negative: then it must first grow to 0.
type allowance struct {
	missing float64 // up to the limit
	at      time.Time
}

// spend takes bytes, and returns how long it takes until the allowance is no longer negative.
func (a *allowance) spend(now time.Time, bytes int, bound, perSecond float64) time.Duration {
	a.missing = max(0, a.missing-now.Sub(a.at).Seconds()*perSecond) + float64(bytes)
	a.at = now
	return time.Duration(max(0, a.missing-bound) / perSecond * float64(time.Second))
}

// give returns bytes that were not needed.
func (a *allowance) give(bytes int) { a.missing -= float64(bytes) }

// pace is what unauthenticated connections together may still send, with the figures of those that were held back. mu
// guards rest.
type pace struct {
	mu   sync.Mutex
	rest allowance

	holding atomic.Int64
	holds   atomic.Uint64
	held    atomic.Int64 // nanoseconds
}

// PaceStats are the figures of connections that have not logged in and sent more than the node reads from such
// connections. All but Holding count since the start.
type PaceStats struct {
	Holding int64         // connections now
	Holds   uint64        // how often one was held back
	Held    time.Duration // for how long, all of them added up
}

// Pace returns the figures of connections that were held back before their login.
func (s *Server) Pace() PaceStats {
	return PaceStats{Holding: s.pace.holding.Load(), Holds: s.pace.holds.Load(), Held: time.Duration(s.pace.held.Load())}
}

// hold counts a connection as held back until the returned function is called.
func (p *pace) hold(now time.Time) (end func(time.Time)) {
	p.holding.Add(1)
	p.holds.Add(1)
	return func(at time.Time) {
		p.holding.Add(-1)
		p.held.Add(int64(at.Sub(now)))
	}
}

// next returns for how long nothing may be read from a connection that has just sent the given number of bytes, and how
// many bytes may be read after that. Both its own allowance and the shared one count. The goroutine that reads the
// connection owns its allowance.
func (p *pace) next(now time.Time, own *allowance, bytes int) (wait time.Duration, most int) {
	alone := own.spend(now, bytes, freeBytes, ownBytesPerSec)
	if alone == 0 {
		return 0, firstReadBytes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	together := p.rest.spend(now, bytes, restBytes, restBytesPerSec)
	if together >= alone {
		p.rest.give(bytes)
		return alone, yieldBytes
	}
	own.give(bytes)
	return together, yieldBytes
}

// Read counts the bytes received. It slows down a client that has not logged in and sends more than a login needs.
func (x *countedConn) Read(b []byte) (int, error) {
	known := x.unauthenticated.known()
	if !known {
		b = b[:min(len(b), x.hold())]
	}
	n, err := x.Conn.Read(b)
	x.received.Add(uint64(n)) // not negative
	if !known {
		x.unpaced += n
	}
	x.letOthersRun(n, known)
	return n, err
}

// letOthersRun gives up the processor after n bytes were read.
func (x *countedConn) letOthersRun(n int, known bool) {
	if n < yieldBytes { // nothing more has arrived
		x.waiting = 0
		if !known {
			runtime.Gosched()
		}
		return
	}
	if x.waiting += n; x.waiting < restAfterBytes {
		runtime.Gosched()
		return
	}
	x.waiting = 0
	time.Sleep(restTime)
}

// hold waits until more may be read from a connection that has not logged in, and returns how much.
func (x *countedConn) hold() (most int) {
	now := time.Now()
	wait, most := x.pace.next(now, &x.own, x.unpaced)
	x.unpaced = 0
	if wait == 0 {
		return most
	}
	end := x.pace.hold(now)
	defer func() { end(time.Now()) }()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-x.unauthenticated.loggedIn:
	case <-x.life.Done():
	}
	return most
}

// gather copies a portion of a large message, and frees the portion. Only one goroutine of a connection does this at a
// time, and it rests now and then. So there is time for others, however many large messages arrive.
func (x *countedConn) gather(to []byte, portion mem.BufferSlice) (n int) {
	x.gathering.Lock()
	defer x.gathering.Unlock()
	since := 0
	for _, piece := range portion { // a frame of HTTP/2 each
		k := copy(to[n:], piece.ReadOnlyData())
		piece.Free()
		n += k
		if since += k; since < gatherBytes {
			runtime.Gosched()
			continue
		}
		since = 0
		time.Sleep(restTime)
	}
	return n
}

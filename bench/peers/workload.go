package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorate/quorate/internal/wait"
)

// Workload is one row of the matrix.
type Workload struct {
	Size   int `json:"size_bytes"` // bytes of each body
	Queues int `json:"queues"`     // publishers take them in turn
	Window int `json:"window"`     // unconfirmed messages of each publisher

	Clients int `json:"clients,omitempty"`         // publishers, and as many consumers; 0: three
	Rate    int `json:"rate_per_second,omitempty"` // of all publishers together; 0: as fast as confirms come
}

func (w Workload) String() string {
	s := fmt.Sprintf("%d B, %d queues, window %d", w.Size, w.Queues, w.Window)
	if w.Clients > 0 {
		s += fmt.Sprintf(", %d publishers", w.Clients)
	}
	if w.Rate > 0 {
		s += fmt.Sprintf(", %d/s", w.Rate)
	}
	return s
}

// clients is how many publish, and how many consume.
func (w Workload) clients() int {
	if w.Clients > 0 {
		return w.Clients
	}
	return serverCount
}

const (
	prefetch   = 1000
	stampBytes = 8 // time of the publish, at the beginning of a body
	refused    = -1
	maxMicros  = 120_000_000
)

// Figures are one system's results under one workload.
type Figures struct {
	System string `json:"system"`
	Workload
	Error           string  `json:"error,omitempty"`
	Messages        int64   `json:"messages"`
	Confirmed       float64 `json:"confirmed_per_second"`
	Consumed        float64 `json:"consumed_per_second"`
	ConfirmP50      float64 `json:"confirm_p50_ms"`
	ConfirmP99      float64 `json:"confirm_p99_ms"`
	EndToEndP50     float64 `json:"end_to_end_p50_ms"`
	EndToEndP99     float64 `json:"end_to_end_p99_ms"`
	CPU             float64 `json:"server_cpu_seconds_per_million"`
	MessagesPerCPUs float64 `json:"messages_per_server_cpu_second"`
	Declared        float64 `json:"declare_seconds"` // how long it took to declare the queues, which workloads in a row share
	Costs
}

// times is a histogram of durations; record may be called concurrently.
type times struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram // in microseconds
}

func newTimes() *times { return &times{h: hdrhistogram.New(1, maxMicros, 3)} }

// record adds a duration; the histogram is not safe for concurrent use, hence mu.
func (t *times) record(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.h.RecordValue(min(max(1, d.Microseconds()), maxMicros)) // the value is within the histogram's bounds
}

func (t *times) milliseconds(quantile float64) float64 {
	return float64(t.h.ValueAtQuantile(quantile)) / 1000
}

// run is one workload while it runs.
type load struct {
	w                  Workload
	queues             []string
	during             time.Duration
	epoch              time.Time
	confirms, endToEnd *times
	sent, received     atomic.Int64
	confirmed, refused atomic.Int64  // refused messages count as confirmed as well
	done               chan struct{} // closed when every sent message was received
	closed             atomic.Bool   // no further messages will be sent
	once               sync.Once
	lost               chan error // capacity 1: why a connection ended
}

func (l *load) now() int64 { return int64(time.Since(l.epoch)) }

// check closes done when every sent message was received. Publishers and consumers both call it:
// the last message may arrive before closed is set.
func (l *load) check() {
	if l.closed.Load() && l.received.Load() >= l.sent.Load() {
		l.once.Do(func() { close(l.done) })
	}
}

// take counts a received message and records its latency.
func (l *load) take(_ int, body []byte) {
	l.endToEnd.record(time.Duration(l.now() - stampOf(body)))
	l.received.Add(1)
	l.check()
}

// measure runs one workload against running servers and existing queues. If there is no progress,
// it stores diagnostics in a directory in keep.
func measure(ctx context.Context, s system, w Workload, queues []string, during time.Duration, keep string) (out Figures, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &load{
		w: w, queues: queues, during: during, epoch: time.Now(),
		confirms: newTimes(), endToEnd: newTimes(), done: make(chan struct{}), lost: make(chan error, 1),
	}
	watched, unwatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { l.watch(watched, s, standstill, keep, cancel) })
	var sessions []session
	defer func() {
		unwatch() // before sessions end
		watching.Wait()
		for _, x := range sessions {
			err = errors.Join(err, x.close())
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause // other errors are its consequences
		}
	}()
	connect := func(i int) (session, error) {
		x, err := s.session(ctx, i%serverCount)
		if err == nil {
			sessions = append(sessions, x)
			watching.Go(func() { l.heed(watched, x) })
		}
		return x, err
	}
	var publishers []*sender
	for i := range w.clients() {
		from, err := connect(i)
		if err != nil {
			return out, err
		}
		p := &sender{l: l, tokens: make(chan struct{}, w.Window), turn: i, next: i * len(queues) / w.clients()}
		if p.to, err = from.publisher(ctx, w.Window, p.confirmed); err != nil {
			return out, err
		}
		publishers = append(publishers, p)
		to, err := connect(i)
		if err != nil {
			return out, err
		}
		if err := to.consume(ctx, l.share(i), prefetch, l.take); err != nil {
			return out, err
		}
	}
	return l.run(ctx, s, publishers)
}

// share returns the queues that consumer i consumes: the only one, or its part of all.
func (l *load) share(i int) []string {
	if len(l.queues) == 1 {
		return l.queues
	}
	var out []string
	for ; i < len(l.queues); i += l.w.clients() {
		out = append(out, l.queues[i])
	}
	return out
}

// run publishes for the time of the workload, waits until the consumers have every message, and
// computes the figures. CPU covers only the servers, ClientCPU only this process.
func (l *load) run(ctx context.Context, s system, publishers []*sender) (Figures, error) {
	out := Figures{System: s.name(), Workload: l.w}
	before, err := spent(ctx, s)
	if err != nil {
		return out, err
	}
	begin := time.Now()
	errs := make([]error, len(publishers))
	var publishing sync.WaitGroup
	for i, p := range publishers {
		publishing.Go(func() { errs[i] = p.run(ctx) })
	}
	publishing.Wait()
	confirmed := time.Since(begin)
	if err := errors.Join(errs...); err != nil {
		return out, err
	}
	l.closed.Store(true)
	l.check()
	select {
	case <-l.done:
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	consumed := time.Since(begin)
	after, err := spent(ctx, s)
	if n := l.refused.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%s: %s: %d messages were refused", s.name(), l.w, n))
	}
	n := float64(l.sent.Load())
	if n == 0 {
		return out, errors.Join(err, fmt.Errorf("%s: %s: nothing was confirmed", s.name(), l.w))
	}
	out.Messages = l.sent.Load()
	out.Confirmed, out.Consumed = n/confirmed.Seconds(), n/consumed.Seconds()
	out.ConfirmP50, out.ConfirmP99 = l.confirms.milliseconds(50), l.confirms.milliseconds(99)
	out.EndToEndP50, out.EndToEndP99 = l.endToEnd.milliseconds(50), l.endToEnd.milliseconds(99)
	out.Costs = perMessage(before, after, n)
	used := (after.server - before.server).Seconds()
	out.CPU, out.MessagesPerCPUs = used*1e6/n, n/max(used, 1.0/clockTicks)
	return out, err
}

// sender is one publisher with its window.
type sender struct {
	l      *load
	to     publisher
	tokens chan struct{}
	turn   int // which publisher it is
	next   int // of the queues
}

// confirmed handles a confirm, or a refusal, and frees its place in the window.
func (p *sender) confirmed(at int64) {
	p.l.confirmed.Add(1)
	if at == refused {
		p.l.refused.Add(1)
	} else {
		p.l.confirms.record(time.Duration(p.l.now() - at))
	}
	<-p.tokens
}

// run publishes for the load's time and waits for all confirms. With a rate, a message's time is that at which it was
// to be published, so that waiting behind a slow confirm counts.
func (p *sender) run(ctx context.Context) error {
	body := make([]byte, max(p.l.w.Size, stampBytes))
	pause := p.pause()
	due := p.l.now() + int64(pause)*int64(p.turn)/int64(p.l.w.clients()) // all of them publish evenly
	for end := due + int64(p.l.during); p.l.now() < end; due += int64(pause) {
		if err := wait.For(ctx, time.Duration(due-p.l.now())); pause > 0 && err != nil {
			return context.Cause(ctx)
		}
		if err := p.reserve(ctx); err != nil {
			return err
		}
		at := p.l.now()
		if pause > 0 {
			at = due
		}
		binary.LittleEndian.PutUint64(body, uint64(at)) // the bits
		p.l.sent.Add(1)
		if err := p.to.publish(ctx, p.l.queues[p.next%len(p.l.queues)], body, at); err != nil {
			return err
		}
		p.next++
	}
	for range cap(p.tokens) { // the whole window is free: nothing is unconfirmed
		if err := p.reserve(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pause is the time from one message to the next; 0: no pause.
func (p *sender) pause() time.Duration {
	if p.l.w.Rate == 0 {
		return 0
	}
	return time.Second * time.Duration(p.l.w.clients()) / time.Duration(p.l.w.Rate)
}

// reserve waits for room in the window.
func (p *sender) reserve(ctx context.Context) error {
	select {
	case p.tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package netns

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/chaos/target"
)

// wire is a switch of IPv4 packets between devices, with links that can be cut and shaped. All
// methods may be called concurrently.
type wire struct {
	mu      sync.RWMutex
	ports   map[[4]byte]*port
	links   map[[2]string]*link // from, to; absent: without faults
	touched atomic.Uint64       // packets that were dropped or held back
	reading sync.WaitGroup
}

// port is where a device is plugged in.
type port struct {
	name   string
	device *os.File
}

func newWire() *wire {
	return &wire{ports: map[[4]byte]*port{}, links: map[[2]string]*link{}}
}

// plug takes a device in and carries what it sends until it is closed.
func (w *wire) plug(name string, address [4]byte, device *os.File) {
	p := &port{name: name, device: device}
	w.mu.Lock()
	w.ports[address] = p
	w.mu.Unlock()
	w.reading.Go(func() {
		packet := make([]byte, 1<<16)
		for {
			n, err := device.Read(packet)
			if err != nil {
				return // closed
			}
			w.carry(p, packet[:n])
		}
	})
}

// close unplugs all devices.
func (w *wire) close() {
	w.mu.Lock()
	for _, p := range w.ports {
		_ = p.device.Close()
	}
	for _, l := range w.links {
		l.close()
	}
	w.links = map[[2]string]*link{}
	w.mu.Unlock()
	w.reading.Wait()
}

// carry takes one packet from a port to the one that it is addressed to.
func (w *wire) carry(from *port, packet []byte) {
	const header = 20
	if len(packet) < header || packet[0]>>4 != 4 {
		return
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	to := w.ports[[4]byte(packet[16:header])]
	if to == nil {
		return
	}
	l := w.links[[2]string{from.name, to.name}]
	if l == nil {
		_, _ = to.device.Write(packet) // a device that is down loses it, as networks do
		return
	}
	if l.take(packet, to) {
		w.touched.Add(1)
	}
}

// cut lets nothing through, until it was joined as often as it was cut.
func (w *wire) cut(from, to string, by int) {
	w.change(from, to, func(l *link) { l.cuts = max(0, l.cuts+by) })
}

func (w *wire) shape(from, to string, s target.Shape) {
	w.change(from, to, func(l *link) { l.shape = s })
}

func (w *wire) lose(from, to string, share float64) {
	w.change(from, to, func(l *link) { l.loss = share })
}

// change changes the faults of a link: it exists only as long as it has some, so that others cost nothing.
func (w *wire) change(from, to string, f func(*link)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]string{from, to}
	l := w.links[key]
	if l == nil {
		l = newLink()
		w.links[key] = l
	}
	l.mu.Lock()
	f(l)
	whole := l.cuts == 0 && l.loss == 0 && l.shape == target.Shape{}
	l.mu.Unlock()
	if whole {
		l.close()
		delete(w.links, key)
	}
}

// A link holds back no more than linkPackets packets, and none for longer than linkTime: what exceeds that is lost,
// as when a router's buffer is full.
const (
	linkPackets = 4096
	linkTime    = 2 * time.Second
)

// link is one way from a port to another that has a fault.
type link struct {
	mu    sync.Mutex
	cuts  int
	shape target.Shape
	loss  float64   // share of packets
	free  time.Time // when the bytes before have passed
	last  time.Time // when the packet before arrives
	held  chan heldPacket
}

// heldPacket is one that a link delivers when it is due.
type heldPacket struct {
	packet []byte
	to     *port
	due    time.Time
}

// newLink makes a link whose packets are delivered in their order until it is closed.
func newLink() *link {
	l := &link{held: make(chan heldPacket, linkPackets)}
	go func() {
		for h := range l.held {
			time.Sleep(time.Until(h.due))
			_, _ = h.to.device.Write(h.packet) // closed meanwhile: lost
		}
	}()
	return l
}

// close delivers what is held back, and nothing after it; the wire's lock keeps take away.
func (l *link) close() { close(l.held) }

// take carries a packet with the link's faults, and reports whether they touched it.
func (l *link) take(packet []byte, to *port) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.shape
	if l.cuts > 0 || l.loss > 0 && rand.Float64() < l.loss {
		return true
	}
	now := time.Now()
	due := now.Add(s.Delay)
	if s.Jitter > 0 {
		due = due.Add(time.Duration(rand.Int64N(int64(s.Jitter))))
	}
	if s.BytesPerSec > 0 {
		if l.free.Before(now) {
			l.free = now
		}
		l.free = l.free.Add(time.Duration(len(packet)) * time.Second / time.Duration(s.BytesPerSec))
		due = due.Add(l.free.Sub(now))
		if l.free.Sub(now) > linkTime {
			return true
		}
	}
	h := heldPacket{append([]byte(nil), packet...), to, due}
	if s.Reorder > 0 && rand.Float64() < s.Reorder { // overtakes what is held back
		_, _ = to.device.Write(h.packet)
		return true
	}
	if h.due.Before(l.last) {
		h.due = l.last
	}
	l.last = h.due
	select {
	case l.held <- h:
	default:
	}
	return true
}

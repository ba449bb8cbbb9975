package broker

import (
	"github.com/quorate/quorate/cluster/traffic"
)

// arrivals holds the deliveries that wait for Take, in order. Take has returned those before index at; recycle removes
// them. bytes is the size of the others, as it counts in the Buffer.
type arrivals struct {
	all   []traffic.Delivery
	at    int
	bytes int64
}

// waiting returns how many deliveries Take has not returned yet.
func (a *arrivals) waiting() int { return len(a.all) - a.at }

// next returns the id of the next delivery; there must be one.
func (a *arrivals) next() uint64 { return uint64(a.all[a.at].MsgID) }

// add appends deliveries; bytes is their size as it counts in the Buffer.
func (a *arrivals) add(ds []traffic.Delivery, bytes int64) {
	a.all = append(a.all, ds...)
	a.bytes += bytes
}

// take returns the next deliveries: at most limit, and together at most maxBytes of stored messages unless the first
// one alone is larger. They are valid until recycle.
func (a *arrivals) take(limit, maxBytes int) []traffic.Delivery {
	n, size := 0, 0
	for at := a.at; at < len(a.all) && n < limit; at++ {
		size += len(a.all[at].Message)
		if n > 0 && size > maxBytes {
			break
		}
		n++
	}
	batch := a.all[a.at : a.at+n]
	a.at += n
	return batch
}

// recycle drops the deliveries that were taken, and keeps the memory for those that arrive next.
func (a *arrivals) recycle() {
	switch n := len(a.all); {
	case a.at == 0:
	case a.at == n:
		clear(a.all)
		a.all, a.at = a.all[:0], 0
	case a.at > n/2:
		left := copy(a.all, a.all[a.at:])
		clear(a.all[left:])
		a.all, a.at = a.all[:left], 0
	}
}

// sizeOf returns the size of deliveries as it counts in a Buffer, in bytes.
func sizeOf(ds []traffic.Delivery) (sum int64) {
	for i := range ds {
		sum += ds[i].Size()
	}
	return sum
}

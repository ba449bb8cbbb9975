package broker

import (
	"math/rand/v2"
	"testing"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// Deliveries are taken in their order, each once, within the limits of a take, and what was taken is released.
func TestArrivals(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var a arrivals
		var added, taken quorumq.MsgID
		for range 500 {
			if r.IntN(2) == 0 {
				ds := make([]traffic.Delivery, r.IntN(6))
				for i := range ds {
					added++
					ds[i].MsgID, ds[i].Message = added, make([]byte, r.IntN(100))
				}
				a.add(ds, sizeOf(ds))
				continue
			}
			limit, maxBytes, sum := r.IntN(8), r.IntN(200), 0
			batch := a.take(limit, maxBytes)
			for i := range batch {
				taken++
				sum += len(batch[i].Message)
				if batch[i].MsgID != taken {
					t.Fatalf("seed %d: %d is taken, want %d", seed, batch[i].MsgID, taken)
				}
			}
			if n := len(batch); n > limit || n > 1 && sum > maxBytes || n == 0 && limit > 0 && taken < added {
				t.Fatalf("seed %d: %d of %d bytes are taken, limits %d and %d", seed, n, sum, limit, maxBytes)
			}
			a.bytes -= sizeOf(batch)
			a.recycle()
			if a.at > len(a.all)/2 {
				t.Fatalf("seed %d: %d of %d are taken and kept", seed, a.at, len(a.all))
			}
			if a.bytes != sizeOf(a.all[a.at:]) || a.waiting() != int(added-taken) {
				t.Fatalf("seed %d: %d bytes, %d wait", seed, a.bytes, a.waiting())
			}
		}
	}
}

package latency

import (
	"testing"
	"time"
)

// Every time is in the bucket that ends behind it and begins before it, and a bucket is at most an eighth wide.
func TestBuckets(t *testing.T) {
	last := 0
	for d := time.Duration(0); d < 2*time.Minute; d += max(d/100, 100) {
		b := bucketOf(d)
		begin := time.Duration(0)
		if b > 0 {
			begin = endOf(b - 1)
		}
		if d < begin || d >= endOf(b) || b < last || b > last+1 || b >= steps && endOf(b)-begin > begin/8 {
			t.Fatalf("%v is in bucket %d, from %v to %v, after %d", d, b, begin, endOf(b), last)
		}
		last = b
	}
	for _, d := range []time.Duration{-time.Second, 0} {
		if b := bucketOf(d); b != 0 {
			t.Errorf("%v is in bucket %d", d, b)
		}
	}
	if b := bucketOf(time.Hour); b != buckets-1 {
		t.Errorf("an hour is in bucket %d of %d", b, buckets)
	}
}

// A quantile is that of what was counted meanwhile.
func TestQuantile(t *testing.T) {
	var h Histogram
	h.Observe(time.Minute, 1000)
	before := h.Counts()
	h.Observe(time.Millisecond, 98)
	h.Observe(time.Second, 2)
	now := h.Counts()
	lately := now.Since(&before)
	for _, x := range []struct {
		part float64
		want time.Duration
	}{{0, time.Microsecond}, {0.5, time.Millisecond}, {0.98, time.Millisecond}, {0.99, time.Second}, {1, time.Second}} {
		if d, known := lately.Quantile(x.part); !known || d < x.want || d > x.want+x.want/8 {
			t.Errorf("%v: %v %v, want %v", x.part, d, known, x.want)
		}
	}
	none := now.Since(&now)
	if _, known := none.Quantile(0.99); known {
		t.Error("there is a quantile of nothing")
	}
}

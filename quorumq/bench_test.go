package quorumq

import (
	"runtime"
	"testing"
)

const benchBatch = 64

func benchMessages() []NewMessage {
	ms := make([]NewMessage, benchBatch)
	for i := range ms {
		ms[i] = NewMessage{Size: 1024, TTLMs: Unlimited, Priority: DefaultPriority}
	}
	return ms
}

func benchConsumer(q *Queue) ConsumerKey {
	k := ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: 1}, Tag: 1}
	q.Apply(Meta{Index: 1}, &Checkout{Consumer: k, Prefetch: 1000})
	return k
}

// BenchmarkEnqueueAssignSettle sends messages through a queue with one consumer, in batches.
// ns/message and the rate count a message from its enqueue to its settlement.
func BenchmarkEnqueueAssignSettle(b *testing.B) {
	for _, bc := range []struct {
		name  string
		ttl   int64
		batch int
	}{{"batch64", Unlimited, benchBatch}, {"batch1", Unlimited, 1}, {"batch64ttl", 60_000, benchBatch}} {
		b.Run(bc.name, func(b *testing.B) {
			c := DefaultConfig()
			c.MessageTTLMs = bc.ttl
			q := New(1024, c)
			k := benchConsumer(q)
			enqueue := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: benchMessages()[:bc.batch]}
			settle := &Settle{Consumer: k, Ranges: make([]MsgIDRange, 1)}
			m := Meta{Index: 2, Now: 1}
			id := MsgID(1)
			b.ReportAllocs()
			for n := 0; n < b.N; n += bc.batch {
				_, e := q.Apply(m, enqueue)
				enqueue.First += Seq(bc.batch)
				m.Index++
				settle.Ranges[0] = MsgIDRange{First: id, Last: id + MsgID(len(e.Deliver)) - 1}
				id += MsgID(len(e.Deliver))
				q.Apply(m, settle)
				m.Index++
				m.Now++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkReadyState measures what a ready message costs in memory.
func BenchmarkReadyState(b *testing.B) {
	const count = 1 << 20
	for _, bc := range []struct {
		name string
		ttl  int64
	}{{"plain", Unlimited}, {"ttl", 3_600_000}} {
		b.Run(bc.name, func(b *testing.B) {
			var perMessage float64
			for range b.N {
				before := heapBytes()
				q := New(1024, DefaultConfig())
				fill(q, count, bc.ttl)
				perMessage = float64(heapBytes()-before) / count
				runtime.KeepAlive(q)
			}
			b.ReportMetric(perMessage, "bytes/ready")
		})
	}
}

// BenchmarkSnapshot measures writing and restoring a queue of ready messages.
func BenchmarkSnapshot(b *testing.B) {
	const count = 1 << 18
	q := New(1024, DefaultConfig())
	fill(q, count, Unlimited)
	var buf []byte
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			buf = q.AppendSnapshot(buf[:0])
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/message")
		b.ReportMetric(float64(len(buf))/count, "bytes/message")
	})
	b.Run("restore", func(b *testing.B) {
		for range b.N {
			if _, err := Restore(buf); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/message")
	})
}

// BenchmarkExpire measures the expiry of messages in mixed order, each after its own TTL.
func BenchmarkExpire(b *testing.B) {
	const count = 1 << 18
	var total float64
	for range b.N {
		b.StopTimer()
		q := New(1024, DefaultConfig())
		ms := benchMessages()
		e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: ms}
		for i := 0; i < count; i += len(ms) {
			for j := range ms {
				ms[j].TTLMs = int64((i+j)*7919%count) + 1
			}
			q.Apply(Meta{Index: uint64(i + 1)}, e)
			e.First += Seq(len(ms))
		}
		m := Meta{Index: count * 2, Now: count * 2}
		b.StartTimer()
		for q.store.ready.len() > 0 {
			q.Apply(m, &Expire{})
			m.Index++
		}
		total += count
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/total, "ns/message")
}

// BenchmarkDecode measures decoding the stored form of a batch.
func BenchmarkDecode(b *testing.B) {
	buf := AppendCommand(nil, &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1 << 30, Messages: benchMessages()})
	var d Decoder
	b.ReportAllocs()
	for n := 0; n < b.N; n += benchBatch {
		if _, err := d.Decode(buf); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(buf))/benchBatch, "bytes/message")
}

func fill(q *Queue, count int, ttl int64) {
	ms := benchMessages()
	for i := range ms {
		ms[i].TTLMs = ttl
	}
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: ms}
	for i := 0; i < count; i += len(ms) {
		q.Apply(Meta{Index: uint64(i + 1), Now: Time(i)}, e)
		e.First += Seq(len(ms))
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkFanOut sends messages of all priorities through 200 consumers in turn. Each consumer
// settles one message per command.
func BenchmarkFanOut(b *testing.B) {
	const consumers = 200
	q := New(1024, DefaultConfig())
	for i := range uint64(consumers) {
		q.Apply(Meta{Index: 1}, &Checkout{
			Consumer: ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: i}, Tag: 1}, Prefetch: 2,
		})
	}
	enqueue := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: benchMessages()}
	for i := range enqueue.Messages {
		enqueue.Messages[i].Priority = uint8(i % levels)
	}
	settle := &Settle{Ranges: make([]MsgIDRange, 1)}
	var held []Delivery
	m := Meta{Index: 2, Now: 1}
	b.ReportAllocs()
	for n := 0; n < b.N; n += benchBatch {
		_, e := q.Apply(m, enqueue)
		enqueue.First += benchBatch
		m.Index++
		held = append(held[:0], e.Deliver...)
		for i := range held {
			settle.Consumer = held[i].Consumer
			settle.Ranges[0] = MsgIDRange{First: held[i].MsgID, Last: held[i].MsgID}
			q.Apply(m, settle)
			m.Index++
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkReject sends messages through a failed return and a discard into the backlog, which is
// settled in the end.
func BenchmarkReject(b *testing.B) {
	c := DefaultConfig()
	c.Overflow, c.DeadLetter = OverflowRejectPublish, DeadLetterAtLeastOnce
	q := New(1024, c)
	k := benchConsumer(q)
	enqueue := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: benchMessages()}
	ranges := make([]MsgIDRange, 1)
	requeue := &Requeue{Consumer: k, Ranges: ranges, Failed: true}
	discard := &Discard{Consumer: k, Ranges: ranges}
	settle := &BacklogSettle{Ranges: make([]SeqRange, 1)}
	m := Meta{Index: 2, Now: 1}
	b.ReportAllocs()
	for n := 0; n < b.N; n += benchBatch {
		ranges[0] = MsgIDRange{First: 1, Last: 1 << 60}
		for _, c := range [...]Command{enqueue, requeue, discard, settle} {
			settle.Ranges[0] = SeqRange{First: 1, Last: q.backlog.next}
			q.Apply(m, c)
			m.Index++
		}
		enqueue.First += benchBatch
	}
	if o := q.Overview(); o.Backlog+o.Ready+o.Unsettled > 0 {
		b.Fatalf("not empty: %+v", o)
	}
}

//go:build unix

package transport

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkAppendEntries sends calls down a pipeline to a member that accepts them at
// once: what the way there and back costs, against raft's way inside one process.
func BenchmarkAppendEntries(b *testing.B) {
	for _, size := range []struct{ count, bytes int }{{64, 100}, {1, 100}, {64, 4096}} {
		name := fmt.Sprintf("%dx%d", size.count, size.bytes)
		b.Run(name+"/inmem", func(b *testing.B) {
			a, from := raft.NewInmemTransport("n1")
			to, t := raft.NewInmemTransport("n2")
			from.Connect(to, t)
			_ = a
			answer(b, t)
			pipe(b, from, size.count, size.bytes)
		})
		b.Run(name+"/mux", func(b *testing.B) {
			x, y := start(b, testConfig("n1", 1)), start(b, testConfig("n2", 1))
			meet(x, y)
			connected(b, x, y)
			answer(b, y.Raft(1024))
			pipe(b, x.Raft(1024), size.count, size.bytes)
		})
		b.Run(name+"/mux-tls", func(b *testing.B) {
			ca := newAuthority(b, "ca")
			conf1, _ := secureConfig(b, "n1", ca)
			conf2, _ := secureConfig(b, "n2", ca)
			x, y := start(b, conf1), start(b, conf2)
			meet(x, y)
			connected(b, x, y)
			answer(b, y.Raft(1024))
			pipe(b, x.Raft(1024), size.count, size.bytes)
		})
	}
}

func pipe(b *testing.B, t raft.Transport, count, size int) {
	b.Helper()
	p, err := t.AppendEntriesPipeline("n2", "n2")
	if err != nil {
		b.Fatal(err)
	}
	logs := entries(count, size)
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("n1"), Addr: []byte("n1")}
	b.ReportAllocs()
	b.SetBytes(int64(count * size))
	b.ResetTimer()
	before := cpu(b)
	ended := make(chan error, 1)
	go func() {
		for range b.N {
			if f := <-p.Consumer(); f.Error() != nil {
				ended <- f.Error()
				return
			}
		}
		ended <- nil
	}()
	for range b.N {
		args := &raft.AppendEntriesRequest{RPCHeader: header, Term: 1, PrevLogTerm: 1, Entries: logs, LeaderCommitIndex: 1}
		if _, err := p.AppendEntries(args, &raft.AppendEntriesResponse{}); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
}

// cpu returns the time that the process has spent on processors: on a busy machine it
// says more than the clock.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

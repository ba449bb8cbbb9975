//go:build linux

package attack

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// costRounds are so many of two quiet times, an attack, and some time for its end. One shows that publishing
// continues; figures for docs/security.md want more.
var costRounds = flag.Int("rounds", 1, "rounds of quiet times and attacks, of which figures are taken")

const (
	quietTime  = 500 * time.Millisecond
	attackTime = time.Second
	endTime    = 300 * time.Millisecond
	// ticksPerSecond are those of the times in /proc/PID/stat.
	ticksPerSecond = 100
	attackers      = 32
)

// processor returns the time that the node has had of processors.
func (v *victim) processor() time.Duration {
	v.Helper()
	pid, _ := v.node.Running()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		v.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // the first is the third of the line
	var ticks int64
	for _, i := range []int{11, 12} { // utime, stime
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			v.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// alone returns an error while connections that have not logged in are open: the node may still work for clients that have left,
// as it reads nothing from a connection while it checks its password.
func (v *victim) alone() error {
	for _, gate := range []string{"clients", "peers"} {
		if n := v.figure(fmt.Sprintf("quorate_gate_unauthenticated{gate=%q}", gate)); n > 0 {
			return fmt.Errorf("%v connections to gate %s are open", n, gate)
		}
	}
	return nil
}

// cost measures what an attack costs while a steady publisher continues: quiet times and the attack take turns, so
// that what else the machine does meets both. The quiet times are two each, which shows how much of a difference is
// the machine's. It prints a line of the table in docs/security.md.
func (v *victim) cost(s *steady, what string, attack func(ctx context.Context)) {
	v.Helper()
	s.v = v
	v.forgetPeak()
	memory := v.peak()
	var one, other, during []time.Duration
	var idle, used time.Duration
	most := 0
	rounds := time.Duration(*costRounds)
	for range rounds {
		began := v.processor()
		one = append(one, s.phase(what+": quiet", quietTime)...)
		other = append(other, s.phase(what+": quiet", quietTime)...)
		idle += v.processor() - began
		ctx, cancel := context.WithCancel(v.Context())
		var attacking sync.WaitGroup
		attacking.Go(func() { attack(ctx) })
		began = v.processor()
		during = append(during, s.phase(what, attackTime)...)
		used += v.processor() - began
		most = max(most, v.descriptors())
		cancel()
		attacking.Wait()
		v.until("what the attack left is done", v.alone)
		s.phase(what+": the end", endTime)
	}
	a, b, d := quantilesOf(one), quantilesOf(other), quantilesOf(during)
	calm := quantilesOf(slices.Concat(one, other))
	ratio := func(x, y time.Duration) float64 { return float64(x) / float64(max(y, time.Microsecond)) }
	v.Logf("%d descriptors at most, %d MiB, processors %.2f (quiet %.2f); p50/p99 in ms: quiet %v and %v, attacked %v; "+
		"p99 of the quiet times %.1f of one another, attacked %.1f times that of quiet",
		most, (v.peak()-memory)>>20, used.Seconds()/(rounds*attackTime).Seconds(), idle.Seconds()/(2*rounds*quietTime).Seconds(),
		a, b, d, ratio(max(a.p99, b.p99), min(a.p99, b.p99)), ratio(d.p99, calm.p99))
}

// paced runs an attacker so many times a second, at most attackers at a time, until the context ends. More could be done on this
// machine, but would show how fast it is and not what the node does.
func paced(ctx context.Context, perSecond int, attacker func(i int)) {
	var all sync.WaitGroup
	turns := make(chan int)
	for range attackers {
		all.Go(func() {
			for i := range turns {
				attacker(i)
			}
		})
	}
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		<-tick.C
		select {
		case turns <- i:
		case <-ctx.Done():
		}
	}
	close(turns)
	all.Wait()
}

// dialer dials from one of many addresses of this host.
func dialer(i int) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i/200%200), byte(1+i%200))}, Timeout: time.Second}
}

// flood opens so many connections a second, says something, and keeps the newest of them.
func flood(ctx context.Context, perSecond, keep int, address string, says []byte, then func(net.Conn)) {
	var mu sync.Mutex
	var open []net.Conn
	paced(ctx, perSecond, func(i int) {
		nc, err := dialer(i).DialContext(ctx, "tcp", address)
		if err != nil {
			return // the node's right
		}
		_, _ = nc.Write(says)
		if then != nil {
			then(nc)
		}
		mu.Lock()
		defer mu.Unlock()
		if open = append(open, nc); len(open) > keep {
			_ = open[0].Close()
			open = open[1:]
		}
	})
	for _, nc := range open {
		_ = nc.Close()
	}
}

// calls opens so many connections a second from changing addresses, and makes some calls by each.
func calls(ctx context.Context, perSecond int, address string, each int, call func(ctx context.Context, cc *grpc.ClientConn)) {
	paced(ctx, perSecond, func(i int) {
		cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return dialer(i).DialContext(ctx, "tcp", address)
			}))
		if err != nil {
			return
		}
		defer func() { _ = cc.Close() }()
		var all sync.WaitGroup
		for range each {
			all.Go(func() { call(ctx, cc) })
		}
		all.Wait()
	})
}

// What attacks cost: how long confirms take meanwhile, and what the node takes of memory and processors. No figure fails
// the test, but a publisher that is starved.
func TestPublishersMeanwhile(t *testing.T) {
	v := attacked(t, "")
	s := v.publishSteadily()
	sink := v.sink()
	s.phase("the beginning", time.Second)
	body := make([]byte, 1<<20)
	publish := &brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: "steady", Body: body}}
	publishAs := func(authorization func() string) func(context.Context, *grpc.ClientConn) {
		return func(ctx context.Context, cc *grpc.ClientConn) {
			_, _ = brokerv1.NewBrokerClient(cc).PublishOne(metadata.AppendToOutgoingContext(ctx, "authorization", authorization()), publish)
		}
	}
	var guess atomic.Int64
	wrong := func() string {
		return "Basic " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "guest:wrong%d", guess.Add(1)))
	}
	for _, x := range []struct {
		what   string
		attack func(context.Context)
	}{
		{"500 silent connections a second", func(ctx context.Context) { flood(ctx, 500, 4000, v.node.Client, nil, nil) }},
		{"500 greetings of HTTP/2 a second", func(ctx context.Context) { flood(ctx, 500, 4000, v.node.Client, []byte(greeting), nil) }},
		{"500 greetings of AMQP a second", func(ctx context.Context) { flood(ctx, 500, 4000, v.node.AMQP, []byte("AMQP\x00\x00\x09\x01"), nil) }},
		{"500 connections to listen.peer a second", func(ctx context.Context) { flood(ctx, 500, 1000, v.node.Peer, []byte(greeting), nil) }},
		{"50 pages of figures a second", func(ctx context.Context) {
			flood(ctx, 50, 1, v.node.HTTP, []byte("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), drain)
		}},
		{"1,000 calls without credentials a second, of 1 MiB", func(ctx context.Context) { calls(ctx, 20, v.node.Client, 50, publishAs(func() string { return "" })) }},
		{"200 wrong passwords a second, from many addresses", func(ctx context.Context) { calls(ctx, 50, v.node.Client, 4, publishAs(wrong)) }},
		{"1,000 watches of health a second", func(ctx context.Context) {
			calls(ctx, 10, v.node.Client, 100, func(ctx context.Context, cc *grpc.ClientConn) {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if w, err := healthv1.NewHealthClient(cc).Watch(ctx, &healthv1.HealthCheckRequest{}); err == nil {
					for _, err = w.Recv(); err == nil; _, err = w.Recv() {
						continue
					}
				}
			})
		}},
		{"60 messages of 8 MiB of a user that do not end", func(ctx context.Context) {
			v.unfinished(ctx, 60, 8<<20, guest)
			<-ctx.Done()
		}},
		{"60 messages of 8 MiB over AMQP that do not end", func(ctx context.Context) { v.unfinishedOverAMQP(ctx, 60, 8<<20) }},
		{"the sink: 1,000 calls a second", func(ctx context.Context) {
			calls(ctx, 20, sink.node.Client, 50, publishAs(func() string { return "" }))
		}},
		{"the sink: 60 messages", func(ctx context.Context) {
			sink.unfinished(ctx, 60, 8<<20, guest)
			<-ctx.Done()
		}},
	} {
		t.Run(x.what, func(t *testing.T) {
			(&victim{t, v.node}).cost(s, x.what, x.attack)
		})
	}
}

// drain reads what comes until the end.
func drain(nc net.Conn) {
	b := make([]byte, 32<<10)
	for err := error(nil); err == nil; {
		_, err = nc.Read(b)
	}
}

// The same of handshakes of TLS.
func TestPublishersMeanwhileTLS(t *testing.T) {
	v, files := attackedTLS(t, "")
	s := v.publishSteadily(files.ca, files.cert, files.key)
	v.cost(s, "200 handshakes of TLS a second", func(ctx context.Context) {
		flood(ctx, 200, 1, v.node.Client, nil, func(nc net.Conn) {
			c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
			if err := c.HandshakeContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return
			}
		})
	})
}

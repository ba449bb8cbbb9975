package peers

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsServers is NATS with JetStream: a queue is a stream with work-queue retention, three replicas
// and one durable consumer.
type natsServers struct {
	program, version string
	always           bool // sync each message, which newer servers support
	clients          []int
	servers          []*process
}

// findNATS looks for nats-server. With always, the server must be able to sync each message.
func findNATS(ctx context.Context, program string, always bool) (*natsServers, error) {
	n := &natsServers{program: program, always: always}
	if program == "" {
		var err error
		if n.program, err = exec.LookPath("nats-server"); err != nil {
			return nil, missing{n.name(), "nats-server is not in PATH; name it with -nats"}
		}
	}
	out, err := exec.CommandContext(ctx, n.program, "--version").Output()
	if err != nil {
		return nil, missing{n.name(), fmt.Sprintf("%s --version: %v", n.program, err)}
	}
	n.version = strings.TrimSpace(strings.TrimPrefix(string(out), "nats-server: "))
	if always {
		return n, n.knowsSync(ctx)
	}
	return n, nil
}

// knowsSync asks the server whether it knows the setting.
func (n *natsServers) knowsSync(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte("jetstream { store_dir: \""+dir+"\", sync_interval: always }\n"), 0o600); err != nil {
		return err
	}
	if err := exec.CommandContext(ctx, n.program, "-t", "-c", file).Run(); err != nil {
		return missing{n.name(), n.version + " does not know the setting sync_interval; name a newer server with -nats"}
	}
	return nil
}

// name names the row; with sync always it counts as a system of its own.
func (n *natsServers) name() string {
	if n.always {
		return "JetStream, sync always"
	}
	return "JetStream"
}

// about states what an acknowledgement guarantees, because the systems differ most in that.
func (n *natsServers) about() string {
	sync := "its default: a message is acknowledged before anything is synced; files are synced every 2 minutes"
	if n.always {
		sync = "sync_interval: always, so that each message is synced before it is acknowledged"
	}
	return n.version + ", its own protocol with nats.go, streams with three replicas in files; " + sync
}

// start writes the servers' files, starts them, and waits until a stream with three replicas can be
// created.
func (n *natsServers) start(ctx context.Context, dir string) error {
	all, err := ports(2 * serverCount)
	if err != nil {
		return err
	}
	n.clients = all[:serverCount]
	routes := make([]string, serverCount)
	for i, p := range all[serverCount:] {
		routes[i] = "nats://" + loopback(p)
	}
	for i := range serverCount {
		sync := ""
		if n.always {
			sync = ", sync_interval: always"
		}
		file := filepath.Join(dir, fmt.Sprintf("nats%d.conf", i+1))
		text := fmt.Sprintf("server_name: n%d\nlisten: %s\njetstream { store_dir: %q%s }\ncluster { name: bench, listen: %s, routes: [%s] }\n",
			i+1, loopback(n.clients[i]), filepath.Join(dir, fmt.Sprintf("nats%d", i+1)), sync,
			strings.TrimPrefix(routes[i], "nats://"), strings.Join(routes, ", "))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		p, err := run(dir, fmt.Sprint("nats-", i+1), nil, n.program, "-c", file)
		if err != nil {
			return err
		}
		n.servers = append(n.servers, p)
	}
	for i, p := range n.servers {
		if err := p.awaitPort(ctx, loopback(n.clients[i])); err != nil {
			return err
		}
	}
	try := 0
	return until(ctx, func() error {
		try++
		return n.ready(ctx, fmt.Sprint("ready-", try))
	})
}

// readyTimeout bounds one try: a request that arrives before there is a leader is never answered.
const readyTimeout = 3 * time.Second

// ready reports whether streams with three replicas can be created.
func (n *natsServers) ready(ctx context.Context, stream string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	s, err := n.session(ctx, 0)
	if err != nil {
		return err
	}
	if err = s.declare(ctx, stream); err == nil {
		err = s.remove(ctx, stream)
	}
	_ = s.close() // it may be broken
	return err
}

// stop stops the servers; the caller removes their files.
func (n *natsServers) stop() error {
	for _, p := range n.servers {
		p.end()
	}
	return nil
}

// roots returns the processes whose processor time counts.
func (n *natsServers) roots() []int {
	var out []int
	for _, p := range n.servers {
		out = append(out, p.pid)
	}
	return out
}

// overNATS is a session with nats.go.
type overNATS struct {
	nc        *nats.Conn
	js        jetstream.JetStream
	confirmed func(int64)
	consuming []jetstream.ConsumeContext
	ends      chan error // capacity 1
	keep      func() bool
}

// session connects to one server without reconnects: a lost connection must fail the run, not
// distort its figures.
func (n *natsServers) session(ctx context.Context, i int) (session, error) {
	s := &overNATS{ends: make(chan error, 1)}
	nc, err := nats.Connect("nats://"+loopback(n.clients[i]), nats.NoReconnect(), nats.ClosedHandler(func(nc *nats.Conn) {
		if err := nc.LastError(); err != nil {
			s.ends <- err
		}
	}))
	if err != nil {
		return nil, err
	}
	s.nc, s.keep = nc, context.AfterFunc(ctx, nc.Close)
	const many = 1 << 20 // publishers keep the window themselves
	s.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(many),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) {
			s.confirmed(stampOf(m.Data))
		}),
		jetstream.WithPublishAsyncErrHandler(func(jetstream.JetStream, *nats.Msg, error) { s.confirmed(refused) }))
	return s, err
}

func stampOf(body []byte) int64 { return int64(binary.LittleEndian.Uint64(body)) } // the bits

func (s *overNATS) lost() <-chan error { return s.ends }

// close stops consuming before the connection goes.
func (s *overNATS) close() error {
	s.keep()
	for _, c := range s.consuming {
		c.Stop()
	}
	s.nc.Close()
	return nil
}

// declare creates a stream that works as a queue, with one durable consumer that all sessions
// share.
func (s *overNATS) declare(ctx context.Context, queue string) error {
	if _, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: queue, Subjects: []string{queue}, Retention: jetstream.WorkQueuePolicy,
		Storage: jetstream.FileStorage, Replicas: serverCount,
	}); err != nil {
		return err
	}
	_, err := s.js.CreateConsumer(ctx, queue, jetstream.ConsumerConfig{
		Durable: "bench", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: serverCount * prefetch,
	})
	return err
}

func (s *overNATS) remove(ctx context.Context, queue string) error {
	return s.js.DeleteStream(ctx, queue)
}

func (s *overNATS) publisher(_ context.Context, _ int, confirmed func(int64)) (publisher, error) {
	s.confirmed = confirmed
	return s, nil
}

// publish publishes a body that begins with the time at; the confirm is matched by it.
func (s *overNATS) publish(_ context.Context, queue string, body []byte, _ int64) error {
	_, err := s.js.PublishAsync(queue, append([]byte(nil), body...)) // the library keeps the slice
	return err
}

// consume acks each message by itself, as the other systems must.
func (s *overNATS) consume(ctx context.Context, queues []string, prefetch int, received func(int, []byte)) error {
	for i, q := range queues {
		c, err := s.js.Consumer(ctx, q, "bench")
		if err != nil {
			return err
		}
		cc, err := c.Consume(func(m jetstream.Msg) {
			received(i, m.Data())
			_ = m.Ack() // a lost ack leads to a redelivery, which is counted
		}, jetstream.PullMaxMessages(prefetch))
		if err != nil {
			return err
		}
		s.consuming = append(s.consuming, cc)
	}
	return nil
}

package cases

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/gobuild"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

const (
	caseTimeout  = 3 * time.Minute
	startTimeout = 2 * time.Minute
	soon         = 60 * time.Second // bound of what holds "eventually"; what holds at once ends at once
	poll         = 10 * time.Millisecond
	stays        = 500 * time.Millisecond
)

// world is the cluster that all cases share.
type world struct {
	once    sync.Once
	dir     string
	cluster *chaos.Cluster
	client  *client.Client
	admin   brokerv1.AdminClient
	broker  brokerv1.BrokerClient
	err     error

	overAMQP sync.Map // names of cases that called over AMQP

	mu   sync.Mutex
	runs map[string]int // of each case: with -count it has others' queues to avoid
}

// run counts the runs of a case, from 1.
func (w *world) run(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs = map[string]int{}
	}
	w.runs[name]++
	return w.runs[name]
}

var shared world

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of a case's time is waiting, so many wait side by side.
	_ = flag.Set("test.parallel", "24")
	code := m.Run()
	if shared.cluster != nil {
		shared.cluster.Kill()
	}
	if code == 0 {
		_ = os.RemoveAll(shared.dir)
	} else if shared.dir != "" {
		fmt.Fprintln(os.Stderr, "node logs are in", shared.dir)
	}
	os.Exit(code)
}

// guest is the login of the first user.
type guest struct{}

func (guest) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}, nil
}

func (guest) RequireTransportSecurity() bool { return false }

// patience keeps leaders where they are when the machine is so busy that a node gets no
// processor for a while: with another leader what is at most once may get lost, and a call
// that is tried again counts twice.
const patience = "timeouts:\n  suspect: 2s\n"

// start builds the node and runs three of it.
func (w *world) start() error {
	var err error
	if w.dir, err = os.MkdirTemp("", "quorate-cases-"); err != nil {
		return err
	}
	binary := filepath.Join(w.dir, "node")
	if err := gobuild.Program(context.Background(), "../..", "./cmd/node", binary); err != nil { // the test's own timeout bounds it
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	if w.cluster, err = chaos.NewCluster(chaos.ClusterConfig{
		Binary: binary, Dir: w.dir, Name: "cases", Settings: patience,
	}); err != nil {
		return err
	}
	if err := w.cluster.Start(ctx); err != nil {
		return err
	}
	if w.client, err = client.Dial(ctx, client.Config{Addresses: w.cluster.Addresses()}); err != nil {
		return err
	}
	conn, err := grpc.NewClient(w.cluster.Nodes[0].Client, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(guest{}))
	if err != nil {
		return err
	}
	w.admin, w.broker = brokerv1.NewAdminClient(conn), brokerv1.NewBrokerClient(conn)
	return nil
}

// kase is one running case.
type kase struct {
	*testing.T
	*world
	client protocol
	ctx    context.Context
	prefix string // of names
	rerun  bool   // it has run before, with -count
}

// begin names the case and gets the cluster. Cases that hurt the cluster do not run
// side by side with others: they call alone.
func begin(t *testing.T, title string) *kase {
	t.Helper()
	k := alone(t, title)
	t.Parallel()
	// The time in which the case waited for its turn does not count.
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	t.Cleanup(cancel)
	k.ctx = ctx
	return k
}

func alone(t *testing.T, title string) *kase {
	t.Helper()
	t.Attr("case", title)
	if testing.Short() {
		t.Skip("starts three processes: not in short mode")
	}
	shared.once.Do(func() { shared.err = shared.start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	t.Cleanup(cancel)
	k := &kase{T: t, world: &shared, client: newProtocol(t, &shared), ctx: ctx}
	k.prefix = strings.TrimPrefix(strings.ReplaceAll(t.Name(), "/", "-"), "Test") + "-"
	if n := shared.run(t.Name()); n > 1 {
		k.rerun = true
		k.prefix += fmt.Sprint("run", n, "-")
	}
	return k
}

// name returns a name that only this run of the case has.
func (k *kase) name(s string) string { return k.prefix + s }

type args = client.Table

// dlx are arguments that dead-letter to a queue.
func dlx(target string, more ...args) args {
	t := args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
	for _, m := range more {
		for n, v := range m {
			t[n] = v
		}
	}
	return t
}

// alo are arguments for at-least-once dead-lettering.
func alo() args {
	return args{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
}

func (k *kase) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// class fails unless the error is of the class.
func (k *kase) class(what string, err error, want client.Class) {
	k.Helper()
	if e := k.refusal(what, err, want); e.Text == "" && e.Class != "" {
		k.Errorf("%s: the error of class %s says nothing", what, want)
	}
}

// refusal is class for cases that look at the error.
func (k *kase) refusal(what string, err error, want client.Class) *client.Error {
	k.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Class != want {
		k.Errorf("%s: error %v, want class %s", what, err, want)
		return &client.Error{}
	}
	return e
}

// queue declares a queue of this case and returns its name.
func (k *kase) queue(s string, a args) string {
	k.Helper()
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: k.name(s), Arguments: a})
	k.must(err)
	return k.name(s)
}

func (k *kase) exchange(s, kind string, x client.Exchange) string {
	k.Helper()
	x.Name, x.Type = k.name(s), kind
	_, err := k.client.DeclareExchange(k.ctx, x)
	k.must(err)
	return x.Name
}

func (k *kase) bind(source, destination, key string, more ...func(*client.Binding)) {
	k.Helper()
	b := client.Binding{Source: source, Destination: destination, RoutingKey: key}
	for _, m := range more {
		m(&b)
	}
	k.must(k.client.Bind(k.ctx, b))
}

func toExchange(b *client.Binding) { b.ToExchange = true }

// try publishes one message to the default exchange, as changed by more.
func (k *kase) try(key, body string, more ...func(*client.Message)) (client.Result, error) {
	m := client.Message{RoutingKey: key, Body: []byte(body)}
	for _, f := range more {
		f(&m)
	}
	return k.client.PublishOne(k.ctx, m)
}

func (k *kase) publish(key string, bodies ...string) {
	k.Helper()
	for _, b := range bodies {
		_, err := k.try(key, b)
		k.must(err)
	}
}

func via(exchange string) func(*client.Message) {
	return func(m *client.Message) { m.Exchange = exchange }
}

func headers(h client.Table) func(*client.Message) {
	return func(m *client.Message) { m.Headers = h }
}

func expires(text string) func(*client.Message) {
	return func(m *client.Message) { m.Expiration = text }
}

// get takes one message within soon.
func (k *kase) get(queue string, autoAck bool) *client.Taken {
	k.Helper()
	var taken *client.Taken
	k.eventually("a message in "+queue, func() (err error) {
		if taken, err = k.client.Get(k.ctx, "", queue, autoAck); err == nil && taken == nil {
			err = errors.New("nothing is ready")
		}
		return err
	})
	return taken
}

// bodies takes n messages with auto-ack.
func (k *kase) bodies(queue string, n int) []string {
	k.Helper()
	out := make([]string, 0, n)
	for range n {
		out = append(out, string(k.get(queue, true).Body))
	}
	return out
}

func (k *kase) same(what string, got, want any) {
	k.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		k.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func (k *kase) settle(m *client.Taken, d client.Decision) {
	k.Helper()
	k.must(k.client.Settle(k.ctx, m.Token, d))
}

// Decisions under their AMQP names (DEL-8).
var (
	ack         = client.Decision{Kind: client.Ack}
	nackRequeue = client.Decision{Kind: client.Requeue}
	reject      = client.Decision{Kind: client.Discard, Failed: true}
	fail        = client.Decision{Kind: client.Requeue, Failed: true}
)

// stats returns a queue's figures, all of them zero while nobody leads it.
func (k *kase) stats(queue string) client.QueueStats {
	k.Helper()
	if s := k.figures(queue); s != nil {
		return *s
	}
	return client.QueueStats{}
}

// figures returns a queue's figures; nil while nobody leads it.
func (k *kase) figures(queue string) *client.QueueStats {
	k.Helper()
	q, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: queue})
	k.must(err)
	return q.Stats
}

var errNotYet = errors.New("not yet")

func (k *kase) eventually(what string, check func() error) {
	k.Helper()
	deadline := time.Now().Add(soon)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || k.ctx.Err() != nil {
			k.Fatalf("%s: not within %v: %v", what, soon, err)
		}
		time.Sleep(poll)
	}
}

// ready waits until a queue has so many ready messages.
func (k *kase) ready(queue string, want uint64) {
	k.Helper()
	k.eventually(fmt.Sprintf("%d ready in %s", want, queue), func() error {
		if n := k.stats(queue).MessagesReady; n != want {
			return fmt.Errorf("%d are ready", n)
		}
		return nil
	})
}

// empty fails if a queue gets a ready message within the time in which things show.
func (k *kase) empty(queue string) {
	k.Helper()
	for end := time.Now().Add(stays); time.Now().Before(end); time.Sleep(5 * poll) {
		if n := k.stats(queue).MessagesReady; n != 0 {
			k.Fatalf("%s has %d ready messages, want none", queue, n)
		}
	}
}

func (k *kase) consume(queue string, prefetch uint32, more ...func(*client.ConsumeConfig)) *consumer {
	k.Helper()
	c := client.ConsumeConfig{Queue: queue, Prefetch: prefetch}
	for _, f := range more {
		f(&c)
	}
	s, err := k.client.Consume(k.ctx, c)
	k.must(err)
	k.Cleanup(s.Close)
	return s
}

// receive takes n deliveries.
func (k *kase) receive(s *consumer, n int) []*delivery {
	k.Helper()
	out := make([]*delivery, 0, n)
	for range n {
		d, err := s.Receive(k.ctx)
		if err != nil {
			k.Fatalf("delivery %d of %d: %v", len(out)+1, n, err)
		}
		out = append(out, d)
	}
	return out
}

// nothing fails if a consumer gets a delivery within the time in which things show.
func (k *kase) nothing(s *consumer) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.ctx, stays)
	defer cancel()
	if d, err := s.Receive(ctx); err == nil {
		k.Fatalf("delivery of %q, want none", d.Body)
	}
}

func deliveredBodies(in []*delivery) []string {
	out := make([]string, 0, len(in))
	for _, d := range in {
		out = append(out, string(d.Body))
	}
	return out
}

// death returns the n-th death as "queue reason count".
func death(r *client.Received, n int) string {
	if n >= len(r.Deaths) {
		return fmt.Sprintf("%d deaths", len(r.Deaths))
	}
	d := r.Deaths[n]
	return fmt.Sprint(d.Queue, " ", d.Reason, " ", d.Count)
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

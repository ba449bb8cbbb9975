package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/examples/recipes"
)

// showConfig is the size of the show. Zero values are the defaults.
type showConfig struct {
	Binary string // the node's program; required
	Dir    string // for the nodes; "": a new temporary one, removed when all went well
	Keep   bool   // leave the cluster running until the context ends
	Out    io.Writer
	TTY    bool // Out is a terminal: progress bars instead of lines

	Messages int // published with confirms, consumed and acked; 0: 100,000
	Rejected int // discarded by the consumer; 0: 1,000
	Expiring int // messages with mixed TTLs; 0: 500
	Poison   int // messages that no consumer can handle; 0: 20
}

const (
	startTimeout = time.Minute
	stepTimeout  = 3 * time.Minute
	stopTimeout  = 30 * time.Second
	firstPort    = 7070
	firstAMQP    = 5672
	firstPage    = 15672
	bodyBytes    = 1024
)

// withDefaults fills in the numbers of messages that are 0.
func (c showConfig) withDefaults() showConfig {
	for field, value := range map[*int]int{&c.Messages: 100_000, &c.Rejected: 1000, &c.Expiring: 500, &c.Poison: 20} {
		if *field == 0 {
			*field = value
		}
	}
	return c
}

// show is one run; one goroutine owns it.
type show struct {
	cfg     showConfig
	dir     string
	cluster *chaos.Cluster
	client  *client.Client
	figures []figure
}

// figure is a row of the closing table.
type figure struct{ name, value string }

// runShow runs all steps. The last line that it writes is "quickstart: ok", or the error that it
// also returns.
func runShow(ctx context.Context, cfg showConfig) error {
	s := &show{cfg: cfg.withDefaults(), dir: cfg.Dir}
	err := s.run(ctx)
	if err != nil {
		s.say("")
		for _, n := range s.nodes() {
			s.say("log of node %s: %s", n.ID, n.LogFile())
		}
		s.say("quickstart: failed: %v", err)
		return err
	}
	if cfg.Dir == "" && !cfg.Keep {
		if err := os.RemoveAll(s.dir); err != nil {
			return err
		}
	}
	if cfg.Keep {
		s.howTo()
	}
	s.say("quickstart: ok")
	if cfg.Keep {
		return s.keep(ctx)
	}
	return nil
}

// nodes returns the nodes; none before the cluster was made.
func (s *show) nodes() []*chaos.Node {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Nodes
}

// run plays all steps, each within stepTimeout. With Keep the cluster stays, but not after an
// error.
func (s *show) run(ctx context.Context) (err error) {
	defer func() {
		if s.cluster != nil && (err != nil || !s.cfg.Keep) {
			err = errors.Join(err, s.stop(err != nil))
		}
	}()
	type step struct {
		title string
		do    func(context.Context) error
	}
	steps := []step{
		{"Three nodes form a cluster", s.start},
		{fmt.Sprintf("%s persistent messages of 1 KB, each confirmed by a majority", thousands(s.cfg.Messages)), s.publishAndConsume},
		{fmt.Sprintf("%s rejected messages go to the dead-letter queue", thousands(s.cfg.Rejected)), s.reject},
		{fmt.Sprintf("%s messages with mixed TTLs expire into a delay target", thousands(s.cfg.Expiring)), s.expire},
		{fmt.Sprintf("%d poison messages pass the delivery limit", s.cfg.Poison), s.poison},
	}
	for _, r := range recipes.All() {
		if slices.Contains(shown, r.Name) {
			steps = append(steps, step{r.Title, func(ctx context.Context) error { return r.Run(ctx, s.client, s.sayMore) }})
		}
	}
	steps = append(steps, step{"The queue's leader is killed in the middle of publishing", s.kill})
	for i, step := range steps {
		s.say("\n%d. %s", i+1, step.title)
		bounded, cancel := context.WithTimeout(ctx, stepTimeout)
		err := step.do(bounded)
		cancel()
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, step.title, err)
		}
	}
	s.table()
	return nil
}

// shown are the recipes of the dead-lettering guide that the show includes; each checks that every
// message arrived once.
var shown = []string{"ladder", "backoff", "redrive", "pipeline"} //nolint:gochecknoglobals // a constant in all but name

// start starts the cluster and declares what the show needs.
func (s *show) start(ctx context.Context) (err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "quorate-quickstart-"); err != nil {
			return err
		}
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if s.cluster, err = chaos.NewCluster(chaos.ClusterConfig{
		Binary: s.cfg.Binary, Dir: s.dir, Name: "quickstart", FirstClientPort: firstPort, FirstAMQPPort: firstAMQP, FirstManagementPort: firstPage,
	}); err != nil {
		return err
	}
	begin := time.Now()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.cluster.Start(starting); err != nil {
		return err
	}
	for _, n := range s.cluster.Nodes {
		pid, _ := n.Running()
		s.say("   node %s is process %d, clients connect to %s, by AMQP to %s", n.ID, pid, n.Client, n.AMQP)
	}
	s.sayMore("%s", s.pageLine())
	s.figure("cluster ready after", time.Since(begin).Round(time.Millisecond).String())
	if s.client, err = client.Dial(ctx, client.Config{Addresses: s.cluster.Addresses()}); err != nil {
		return err
	}
	queues := []client.Queue{
		{Name: "orders.dead"},
		{Name: "orders", Arguments: deadLetters("orders.dead", nil)},
		{Name: "delayed"},
		{Name: "waiting", Arguments: deadLetters("delayed", nil)},
		{Name: "fragile.dead"},
		{Name: "fragile", Arguments: deadLetters("fragile.dead", client.Table{"x-delivery-limit": poisonLimit})},
		{Name: "survivor"},
	}
	for _, q := range queues {
		if _, err := s.client.DeclareQueue(ctx, q); err != nil {
			return err
		}
	}
	s.say("   %d queues are declared, each replicated to all three nodes", len(queues))
	return nil
}

// deadLetters returns the arguments of a queue whose dead letters go to target, at least once.
func deadLetters(target string, more client.Table) client.Table {
	t := client.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}
	for k, v := range more {
		t[k] = v
	}
	return t
}

// stop stops the nodes in order, or kills them after a failure, when an orderly stop could hang.
func (s *show) stop(failed bool) error {
	if s.client != nil {
		s.client.Close()
	}
	if failed {
		s.cluster.Kill()
		return nil
	}
	s.say("\nStopping the nodes")
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return s.cluster.Stop(ctx)
}

// howTo prints how to use the cluster.
func (s *show) howTo() {
	address := s.cluster.Nodes[0].Client
	s.say("\nThe cluster keeps running until Ctrl-C; its files are in %s. In another terminal:\n", s.dir)
	if address != fmt.Sprintf("127.0.0.1:%d", firstPort) {
		s.say("  export QUORATE_ADDRESSES=%s", address)
	}
	s.say("  bin/quoratectl cluster status\n  bin/quoratectl queue declare hello\n" +
		"  bin/quoratectl publish hello \"a message\"\n  bin/quoratectl consume hello --count 1\n  bin/quoratectl queue show hello\n")
	s.say("%s", s.pageLine())
	s.say("Programs for RabbitMQ connect to amqp://guest:guest@%s/\n", s.cluster.Nodes[0].AMQP)
}

// pageLine says where the web page is.
func (s *show) pageLine() string {
	return fmt.Sprintf("The web page is http://%s/; log in as guest with the password guest", s.cluster.Nodes[0].Management)
}

// keep waits for the context to end and stops the nodes.
func (s *show) keep(ctx context.Context) error {
	s.client.Close()
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return s.cluster.Stop(stopping)
}

// say writes a line; a reader that has gone away does not end the show.
func (s *show) say(format string, args ...any) { _, _ = fmt.Fprintf(s.cfg.Out, format+"\n", args...) }

// sayMore writes a line about the result of a step.
func (s *show) sayMore(format string, args ...any) { s.say("   "+format, args...) }

func (s *show) figure(name, value string) { s.figures = append(s.figures, figure{name, value}) }

// table prints the figures, aligned.
func (s *show) table() {
	width := 0
	for _, f := range s.figures {
		width = max(width, len(f.name))
	}
	s.say("\nFigures of this run")
	for _, f := range s.figures {
		s.say("  %-*s  %s", width, f.name, f.value)
	}
}

// thousands writes 100000 as 100,000.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

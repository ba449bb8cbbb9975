package upgrade

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/client"
)

// Flags of TestWriteGolden, which `make golden` sets.
var (
	write      = flag.Bool("write", false, "write testdata of a build")
	other      = flag.String("build", "", "program of an earlier build; empty: of this one")
	otherReads = flag.Int("reads", 0, "newest version that the earlier build reads")
)

const (
	// goldenBytes bounds a file that is kept for ever.
	goldenBytes = 200 << 10
	// years is how long messages wait: less than the ten years that are allowed, and longer than a golden is read.
	years = 9 * 365 * 24 * time.Hour
	// A snapshot is due when so many bodies of so many bytes have come and gone.
	gone, goneBytes = 24, 1 << 20
)

// fill declares and publishes something of each kind that is stored, up to a snapshot.
func fill(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	most := int64(1_000_000)
	must(c.PutVHost(ctx, client.VHost{Name: goldenShop, Description: "what is sold", Tags: []string{"eu"}, Limits: client.VHostLimits{MaxQueues: &most, MaxMessageRate: &most}}))
	must(c.SetPermission(ctx, client.Permission{User: client.DefaultUser, VHost: goldenShop, Configure: ".*", Write: ".*", Read: ".*"}))
	must(c.PutUser(ctx, client.User{Name: "clerk", Password: "of the shop", Tags: []string{"monitoring"}}))
	must(nil, c.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "clerk", Limits: client.UserLimits{MaxConnections: &most, MaxQueues: &most}}))
	must(c.SetPermission(ctx, client.Permission{User: "clerk", VHost: goldenShop, Configure: "^$", Write: "^orders", Read: ".*"}))
	must(c.PutPolicy(ctx, client.Policy{VHost: goldenShop, Name: "long", Pattern: "^orders", ApplyTo: "queues", Priority: 3, Definition: client.Table{"max-length": int64(1000)}}))
	must(c.PutPolicy(ctx, client.Policy{VHost: goldenShop, Name: "most", Operator: true, Pattern: ".*", ApplyTo: "queues", Definition: client.Table{"max-length-bytes": int64(1 << 30)}}))
	must(c.DeclareExchange(ctx, client.Exchange{VHost: goldenShop, Name: "events", Type: "topic"}))
	must(c.SetTopicPermission(ctx, client.TopicPermission{User: "clerk", VHost: goldenShop, Exchange: "events", Write: "^eu", Read: ".*"}))
	must(c.DeclareQueue(ctx, client.Queue{VHost: goldenShop, Name: "dead"}))
	must(c.DeclareQueue(ctx, client.Queue{VHost: goldenShop, Name: "orders", Arguments: client.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-delivery-limit": int64(5), "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	}}))
	must(nil, c.Bind(ctx, client.Binding{VHost: goldenShop, Source: "events", Destination: "orders", RoutingKey: "eu.#", Arguments: client.Table{"note": "all of it"}}))
	for range gone { // to make a snapshot due
		must(c.PublishOne(ctx, client.Message{VHost: goldenShop, RoutingKey: "orders", Body: make([]byte, goneBytes)}))
	}
	for range gone {
		must(c.Get(ctx, client.GetRequest{VHost: goldenShop, Queue: "orders", AutoAck: true}))
	}
	settled(ctx, t, c, "rejected", client.Decision{Kind: client.Discard, Failed: true, Annotations: client.Table{"x-why": "of no use"}})
	settled(ctx, t, c, "failed twice", client.Decision{Kind: client.Requeue, Failed: true, Annotations: client.Table{"x-try": int64(1)}}, client.Decision{Kind: client.Requeue, Failed: true})
	priority := uint8(7)
	must(c.PublishOne(ctx, client.Message{VHost: goldenShop, Exchange: "events", RoutingKey: "eu.created", Body: []byte("all properties"), Properties: client.Properties{
		ContentType: "text/plain", ContentEncoding: "identity", DeliveryMode: 2, Priority: &priority, CorrelationID: "c-1", ReplyTo: "answers", Expiration: client.TTL(years),
		MessageID: "m-1", Timestamp: time.Unix(1_700_000_000, 0), Type: "order", UserID: client.DefaultUser, AppID: "shop",
		Headers: client.Table{
			"text": "ä", "bytes": []byte{0, 255}, "number": int64(-7), "real": 1.5, "yes": true, "none": nil, "at": time.Unix(1_700_000_001, 0),
			"price": client.Decimal{Scale: 2, Value: 1999}, "list": []any{"a", int64(1)}, "table": client.Table{"in": "it"}, "CC": []any{"unbound"},
		},
	}}))
	numbered(ctx, t, c)
}

// fillMore adds what a snapshot does not have yet.
func fillMore(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	for _, m := range []client.Message{
		{RoutingKey: "orders", Body: []byte("for later"), Delay: years},
		{RoutingKey: "dead", Body: []byte("plain")},
		{RoutingKey: "orders", Body: []byte("expires"), Properties: client.Properties{Expiration: client.TTL(time.Millisecond)}},
	} {
		m.VHost = goldenShop
		if _, err := c.PublishOne(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	for count(ctx, t, c, "dead") < 3 { // the rejected one, the expired one, the plain one
		if err := sleep(ctx, errors.New("the dead letters are not there")); err != nil {
			t.Fatal(err)
		}
	}
}

// settled publishes a message to the queue, which is empty, and settles its deliveries one after another.
func settled(ctx context.Context, t *testing.T, c *client.Client, body string, how ...client.Decision) {
	t.Helper()
	if _, err := c.PublishOne(ctx, client.Message{VHost: goldenShop, RoutingKey: "orders", Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
	for _, d := range how {
		m, err := c.Get(ctx, client.GetRequest{VHost: goldenShop, Queue: "orders"})
		if err == nil && (m == nil || string(m.Body) != body) {
			err = fmt.Errorf("instead of %q there is %+v", body, m)
		}
		if err == nil {
			err = c.Settle(ctx, client.SettleRequest{Token: m.Token, Decision: d})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// numbered publishes the three messages of a producer that names itself; a repeat stores nothing.
func numbered(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	p, err := c.Publisher(client.PublisherConfig{Producer: []byte("of the orderbook"), First: 1})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if _, err := p.Publish(ctx, client.Message{VHost: goldenShop, RoutingKey: "orders", Body: fmt.Appendf(nil, "numbered %d", n+1)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// count returns how many messages a queue of the shop has, in all states.
func count(ctx context.Context, t *testing.T, c *client.Client, queue string) uint64 {
	t.Helper()
	q, err := c.GetQueue(ctx, client.QueueRef{VHost: goldenShop, Name: queue})
	if err != nil || q.Stats == nil {
		t.Fatalf("queue %s: %+v, %v", queue, q.Stats, err)
	}
	return q.Stats.Messages
}

// notKept are files without content that counts, which each start makes anew.
func notKept() []string { return []string{"lock", "LOCK", "reserve", "alive", "administrator.token"} }

// pack writes what the directory has.
func pack(dir, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "spare-") || slices.Contains(notKept(), d.Name()) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(content))})
		}
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	})
	return errors.Join(err, w.Close(), z.Close(), out.Close())
}

// TestWriteGolden writes the files of this build's version, and the contents that all of them have in common if no
// version has any yet. -build names the program of another build.
func TestWriteGolden(t *testing.T) {
	if !*write {
		t.Skip("writes testdata: run `make golden`")
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	today := build(t, filepath.Join("..", ".."), filepath.Join(t.TempDir(), "quorate"))
	binary, version := today, catalog.NewestVersion
	if *other != "" {
		binary, version = *other, catalog.Version(*otherReads)
	}
	nodes := alone(t, binary)
	c := dial(ctx, t, nodes)
	fill(ctx, t, c)
	snapshots := filepath.Join(nodes.Nodes[0].DataDir(), "queues", "q*", "snapshots", "*.snapshot")
	for found := []string(nil); len(found) == 0; found, _ = filepath.Glob(snapshots) { // the pattern is right
		if err := sleep(ctx, errors.New("there is no snapshot")); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if err := nodes.Stop(ctx); err != nil { // a clean end, a start, and the log of a node that was killed
		t.Fatal(err)
	}
	c = dial(ctx, t, nodes)
	fillMore(ctx, t, c)
	c.Close()
	nodes.Kill()
	file := filepath.Join("testdata", fmt.Sprintf("node-v%d.tar.gz", version))
	keep(t, nodes.Nodes[0].DataDir(), file)
	nodes.Nodes[0].Use(today)
	c = dial(ctx, t, nodes)
	place := filepath.Join(t.TempDir(), "backup")
	got := contents(ctx, t, c, place)
	if version == catalog.NewestVersion {
		keep(t, place, filepath.Join("testdata", fmt.Sprintf("backup-v%d.tar.gz", version)))
	}
	if want, err := os.ReadFile(contentsFile); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(contentsFile, []byte(got), 0o640); err != nil {
			t.Fatal(err)
		}
	} else if err != nil || got != string(want) {
		t.Errorf("it holds\n%s\nwant\n%s: a change of what is filled in needs all goldens anew: %v", got, want, err)
	}
}

// keep packs a directory and demands that the file is small.
func keep(t *testing.T, dir, file string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := pack(dir, file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > goldenBytes {
		t.Errorf("%s has %d bytes, more than %d", file, info.Size(), goldenBytes)
	}
	t.Logf("%s has %d bytes", file, info.Size())
}

package upgrade

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/backup/online"
	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/message"
)

const (
	goldenName   = "golden" // of the cluster
	goldenShop   = "shop"   // the vhost
	contentsFile = "testdata/contents.txt"
)

// goldens returns the files of testdata that match, at least one.
func goldens(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("testdata has no %s: %v", pattern, err)
	}
	return found
}

// alone returns a cluster of one node in a directory of the test.
func alone(t *testing.T, binary string) *chaos.Cluster {
	t.Helper()
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Name: goldenName, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// dial starts the node and returns a client.
func dial(ctx context.Context, t *testing.T, c *chaos.Cluster) *client.Client {
	t.Helper()
	if err := c.Start(ctx); err != nil {
		log, _ := os.ReadFile(c.Nodes[0].LogFile())
		t.Fatalf("%v\n%s", err, log)
	}
	cl, err := client.Dial(ctx, client.Config{Addresses: c.Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// contents returns all that a cluster holds, as text that does not depend on when or by what build it was
// written: the definitions, and each queue's messages with their past. It leaves a backup in the directory.
func contents(ctx context.Context, t *testing.T, c *client.Client, dir string) string {
	t.Helper()
	store, err := (archive.Location{Name: dir}).Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	copied := online.Create{Client: c, Store: store, Plan: archive.Manifest{Cluster: goldenName}, Seen: func(online.Progress) {}}
	if _, err := copied.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return archived(ctx, t, dir)
}

// archived is contents of a backup.
func archived(ctx context.Context, t *testing.T, place string) string {
	t.Helper()
	store, err := (archive.Location{Name: place}).Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := archive.Open(ctx, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it was only read from
	document, err := r.Definitions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString(definitionsText(t, document))
	queues := slices.Clone(r.Manifest.Queues)
	slices.SortFunc(queues, func(a, b archive.Queue) int { return strings.Compare(a.Name, b.Name) })
	for i := range queues {
		fmt.Fprintf(&out, "queue %s of vhost %s\n", queues[i].Name, queues[i].VHost)
		for next := r.Blocks(ctx, &queues[i]); ; {
			b, err := next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			block, err := backup.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			for m := range block.Messages {
				out.WriteString(messageText(t, &block.Messages[m]))
			}
		}
	}
	return out.String()
}

// definitionsText is an exported document without what no two builds or runs have in common: the version, and
// passwords' hashes.
func definitionsText(t *testing.T, document []byte) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(document, &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rabbit_version", "rabbitmq_version", "product_version", "original_cluster_name", "explanation"} {
		delete(all, name)
	}
	if users, is := all["users"].([]any); is {
		for _, u := range users {
			if user, is := u.(map[string]any); is {
				user["password_hash"] = ""
			}
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// messageText is a message with its past. Times are left out, except for whether there are any: what was stored for
// later is for some day in the years to come.
func messageText(t *testing.T, b *backup.Message) string {
	t.Helper()
	m, err := message.Decode(b.Stored)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Body) > 100 {
		m.Body = fmt.Appendf(nil, "%d bytes", len(m.Body))
	}
	text := fmt.Sprintf("  %q from exchange %q by %q, %d of them BCC\n", m.Body, m.Exchange, m.RoutingKeys, m.BCCCount)
	text += fmt.Sprintf("    properties %+v, headers %s, annotations %s\n", m.Properties, m.Headers.AppendJSON(nil), m.Annotations.AppendJSON(nil))
	text += fmt.Sprintf("    TTL %d, level %d, delayed %t, enqueued %t, failed %d times, assigned %d times\n", b.TTLMs, b.Priority, b.Due > 0, b.Past.At > 0,
		b.Past.DeliveryCount, b.Past.AcquiredCount)
	for _, d := range m.Deaths {
		text += fmt.Sprintf("    died in %s, %s, %d times, of exchange %q by %q, TTL %d (%t), failed %d times, assigned %d times\n",
			d.Queue, d.Reason, d.Count, d.Exchange, d.RoutingKeys, d.TTLMs, d.HasTTL, d.DeliveryCount, d.AcquiredCount)
	}
	if len(m.Deaths) > 0 {
		text += fmt.Sprintf("    first %+v, last %+v\n", m.FirstDeath, m.LastDeath)
	}
	return text
}

// unpackGolden is the inverse of pack. Directories of snapshots are part of the format, so empty ones need not be kept.
func unpackGolden(t *testing.T, file, dir string) {
	t.Helper()
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close() //nolint:errcheck // it was only read from
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err == nil {
		err = unpack(content, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What each earlier version has stored is read by this build, and all of it is there: definitions, and messages with
// their properties, deaths, counts and delays.
func TestGolden(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a node and starts processes: not in short mode")
	}
	binary := build(t, filepath.Join("..", ".."), filepath.Join(t.TempDir(), "quorate"))
	want, err := os.ReadFile(contentsFile)
	if err != nil {
		t.Fatal(err)
	}
	for pattern, read := range map[string]func(ctx context.Context, t *testing.T, file, binary, want string){
		"node-v*.tar.gz": goldenNode, "backup-v*.tar.gz": goldenBackup,
	} {
		for _, file := range goldens(t, pattern) {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
				defer cancel()
				read(ctx, t, file, binary, string(want))
			})
		}
	}
}

// goldenNode starts a node on a data directory. It continues from there, and starts on what it has made of it.
func goldenNode(ctx context.Context, t *testing.T, file, binary, want string) {
	t.Helper()
	nodes := alone(t, binary)
	unpackGolden(t, file, nodes.Nodes[0].DataDir())
	for life := range 2 {
		c := dial(ctx, t, nodes)
		if got := contents(ctx, t, c, t.TempDir()); got != want {
			t.Errorf("life %d: it holds\n%s\nwant\n%s", life, got, want)
		}
		c.Close()
		nodes.Kill()
	}
	usable(ctx, t, dial(ctx, t, nodes))
}

// usable publishes to a queue of an earlier build: what a producer of then repeats is not stored again, and what is
// new comes behind all else.
func usable(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	before := count(ctx, t, c, "orders")
	numbered(ctx, t, c)
	if after := count(ctx, t, c, "orders"); after != before {
		t.Errorf("a producer's repeats were stored: there were %d messages, and are %d", before, after)
	}
	if _, err := c.PublishOne(ctx, client.Message{VHost: goldenShop, RoutingKey: "orders", Mandatory: true, Body: []byte("of today")}); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := c.Get(ctx, client.GetRequest{VHost: goldenShop, Queue: "orders", AutoAck: true})
		if err != nil || m == nil {
			t.Fatalf("the new message does not come: %v", err)
		}
		if string(m.Body) == "of today" {
			return
		}
	}
}

// goldenBackup reads, verifies and restores a backup.
func goldenBackup(ctx context.Context, t *testing.T, file, binary, want string) {
	t.Helper()
	dir := t.TempDir()
	unpackGolden(t, file, dir)
	if got := archived(ctx, t, dir); got != want {
		t.Errorf("it holds\n%s\nwant\n%s", got, want)
	}
	store, err := (archive.Location{Name: dir}).Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := archive.Open(ctx, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(ctx, func(*archive.Queue) {}); err != nil {
		t.Error(err)
	}
	c := dial(ctx, t, alone(t, binary))
	job := online.Restore{Client: c, From: r, Run: t.Name(), Seen: func(q online.RestoredQueue) {
		if q.Refused > 0 {
			t.Errorf("queue %s refused %d messages", q.Queue, q.Refused)
		}
	}, Imported: func(client.ImportSummary) {}}
	if err := errors.Join(job.Execute(ctx), r.Close()); err != nil {
		t.Fatal(err)
	}
	// What was acquired is returned, so it comes in another place; what is held is the same.
	if got := contents(ctx, t, c, t.TempDir()); sortedLines(got) != sortedLines(want) {
		t.Errorf("restored, it holds\n%s\nwant\n%s", got, want)
	}
}

func sortedLines(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

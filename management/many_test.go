package management_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management"
)

// manyQueues is how many queues the benchmark has: few unless QUORATE_SCALE_GROUPS asks for more.
func manyQueues(b *testing.B) int {
	text := os.Getenv("QUORATE_SCALE_GROUPS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 100 {
		b.Fatalf("QUORATE_SCALE_GROUPS is %q: set a number of queues, 100 or more", text)
	}
	return n
}

// manyName is the name of a queue of the benchmark.
func manyName(i int) string { return fmt.Sprintf("orders.%05d", i) }

// declareMany imports the queues of the benchmark in parts.
func declareMany(b *testing.B, c *client.Client, n int) {
	b.Helper()
	all := make([]map[string]any, n)
	for i := range all {
		all[i] = map[string]any{"name": manyName(i), "vhost": "/", "durable": true, "arguments": map[string]any{"x-queue-type": "quorum"}}
	}
	for part := range slices.Chunk(all, 1000) {
		doc, err := json.Marshal(map[string]any{"queues": part})
		if err != nil {
			b.Fatal(err)
		}
		got, err := c.ImportDefinitions(b.Context(), client.ImportDefinitionsRequest{Document: doc})
		if err != nil || got.Failed+got.Different+got.Refused != 0 {
			b.Fatalf("%+v, %v", got, err)
		}
	}
}

// BenchmarkListOfMany measures the page with the list of queues, as the server answers: with figures that are there, in several
// orders, and when the figures of all queues are asked of all nodes anew, of which one queue in a hundred was used meanwhile. The
// three nodes are of this process.
func BenchmarkListOfMany(b *testing.B) {
	n := manyQueues(b)
	cluster := testcluster.StartMany(b, 3, 5*time.Second)
	h := management.New(management.Config{Broker: cluster.Broker(0), Node: cluster.Name(0), Version: "test"})
	b.Cleanup(h.Close)
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	c, err := client.Dial(b.Context(), client.Config{Addresses: cluster.Addrs(), ProbeTimeout: time.Minute, CallTimeout: 10 * time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	declareMany(b, c, n)
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	x := &http.Client{Jar: jar}
	answer, err := x.PostForm(s.URL+"/ui/login", url.Values{"user": {"guest"}, "password": {"guest"}}) //nolint:noctx // of a benchmark
	if err != nil {
		b.Fatal(err)
	}
	drop(b, answer)
	for _, list := range []struct{ name, query string }{
		{"plain", ""},
		{"sorted", "?sort=messages_ready&sort_reverse=true"},
		{"by rate", "?sort=message_stats.publish_details.rate"},
		{"by policy", "?sort=policy"},
		{"pattern", "?name=7$&use_regex=true"},
	} {
		b.Run(list.name, func(b *testing.B) {
			read(b, x, s.URL+"/ui/queues")
			for b.Loop() {
				read(b, x, s.URL+"/ui/queues"+list.query)
			}
		})
	}
	b.Run("anew", func(b *testing.B) {
		longest := time.Duration(0)
		for b.Loop() {
			b.StopTimer()
			for i := range n / 100 {
				if _, err := c.PublishOne(b.Context(), client.Message{RoutingKey: manyName(100 * i)}); err != nil {
					b.Fatal(err)
				}
			}
			time.Sleep(5 * time.Second) // for which the rates are fresh, longer than for the figures
			b.StartTimer()
			began := time.Now()
			read(b, x, s.URL+"/ui/queues")
			longest = max(longest, time.Since(began))
		}
		b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
	})
}

// read asks for a page and reads it.
func read(b *testing.B, x *http.Client, address string) {
	b.Helper()
	answer, err := x.Get(address) //nolint:noctx // of a benchmark
	if err != nil {
		b.Fatal(err)
	}
	drop(b, answer)
}

// drop reads an answer, which must be a success.
func drop(b *testing.B, answer *http.Response) {
	b.Helper()
	size, err := io.Copy(io.Discard, answer.Body)
	if closed := answer.Body.Close(); err != nil || closed != nil || size == 0 || answer.StatusCode != http.StatusOK {
		b.Fatal(answer.Status, size, err, closed)
	}
}
